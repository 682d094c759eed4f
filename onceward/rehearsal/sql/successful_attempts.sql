-- Return when each of these pieces of work succeeded for the last time, and what it returned.
select distinct on (a.work_id) a.work_id as id, coalesce(a.started_at, a.finished_at) as at, a.result
  from onceward.attempts a
 where a.work_id = any($1::bigint[]) and a.outcome = 'success'
 order by a.work_id, a.finished_at desc
