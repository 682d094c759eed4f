-- Return the heartbeat of every worker, and of every worker that holds claims without a row of its own.
select w.id, w.beat, pg_postmaster_start_time() > clock_timestamp() - make_interval(secs => $1) as settling
  from onceward.workers w
union all
select distinct c.worker, null::bigint, pg_postmaster_start_time() > clock_timestamp() - make_interval(secs => $1)
  from onceward.claims c
 where not exists (select from onceward.workers w where w.id = c.worker)
