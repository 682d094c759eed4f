-- Return the items of one bulk replay or discard, with their states.
select e.entity_type as kind, e.entity_id::bigint as id, e.metadata ->> 'task' as task, e.reason,
       case when w.id is null then coalesce(last.outcome, 'unknown')
            when w.dead_reason is not null then 'dead_letter'
            when w.lease is not null then 'processing'
            when w.attempts > 0 then 'retrying' else 'pending' end as state, w.queue
  from onceward.audit_log e
  left join onceward.work w on w.id = e.entity_id::bigint
  left join lateral (
      select a.outcome from onceward.attempts a where a.work_id = e.entity_id::bigint order by a.number desc, a.finished_at desc limit 1
  ) last on w.id is null
 where e.id > $1 and e.id <= $2 and e.action = 'dead_letter.replay' and e.entity_id ~ '^[0-9]{1,18}$'
 order by e.id limit 2000
