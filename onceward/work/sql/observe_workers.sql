-- Return the heartbeat of every worker, and of every worker that holds claims without a row of its own.
-- A start in the future means that the clock has moved back since then.
with server as materialized (
    select since, abs(extract(epoch from clock_timestamp() - since)) < $1::float8 as settling
      from (select onceward.server_since() as since offset 0) s
)
select w.id, w.beat, s.settling, s.since
  from onceward.workers w cross join server s
union all
select c.worker, null::bigint, s.settling, s.since
  from (select distinct worker from onceward.claims) c cross join server s
 where not exists (select from onceward.workers w where w.id = c.worker)
