-- Return jobs with their state, newest first, from the id $1 (exclusive) down to $2, at most $3. A parameter that is null does not
-- restrict the selection.
select * from (
    select j.id, j.task, j.organization_id, j.created_at, j.caused_by, j.tags,
           case when w.id is null then coalesce(last.outcome, 'unknown')
                when w.dead_reason is not null then 'dead_letter'
                when w.lease is null then 'pending'
                when exists (select from onceward.workers o where w.id = any(o.overdue)) then 'overdue'
                else 'processing' end as state,
           -- The attempt that made a dead letter is not counted in its row.
           coalesce(w.attempts + (w.dead_reason is not null)::int, last.number) as attempts,
           w.sort_at as due_at, w.queue, last.finished_at
      from onceward.jobs j
      left join onceward.work w on w.id = j.id
      left join lateral (
          select a.outcome, a.number, a.finished_at from onceward.attempts a where a.work_id = j.id
           order by a.number desc, a.finished_at desc limit 1
      ) last on true
     where j.id < $1 and j.id >= $2 and ($4::text is null or j.task = $4)
       and ($6::uuid is null or j.organization_id = $6)
) listed
 where $5::text is null or listed.state = $5
 order by listed.id desc limit $3
