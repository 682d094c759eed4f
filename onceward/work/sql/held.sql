-- What a claim by lane has taken.
select w.id, w.kind, w.task, w.organization_id, w.attempts, w.crashes, w.max_attempts, w.bundle, w.lane, w.sort_at,
       j.args, j.caused_by, j.tags
  from onceward.work w
  left join onceward.jobs j on j.id = w.id
 where w.id = any($1::bigint[]) and w.lease = $2
 order by w.id
