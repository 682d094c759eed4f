-- Return the heartbeat of every worker, and of every worker that holds claims without a row of its own.
with server as materialized (
    select onceward.server_since() > clock_timestamp() - make_interval(secs => $1) as settling
)
select w.id, w.beat, s.settling
  from onceward.workers w cross join server s
union all
select c.worker, null::bigint, s.settling
  from (select distinct worker from onceward.claims) c cross join server s
 where not exists (select from onceward.workers w where w.id = c.worker)
