-- Count the overdue handlers by task, on all nodes. Handlers inside requests have no stored work, so no id.
select task, sum(count)::int as count, min(first_id) as first_id
  from (select w.task, count(*) as count, min(w.id) as first_id
          from onceward.workers o join onceward.work w on w.id = any(o.overdue) group by w.task
        union all
        select i.key, i.value::bigint, null
          from onceward.processes p, jsonb_each_text(p.overdue) i
         where p.seen_at > clock_timestamp() - interval '60 seconds') o
 group by task order by task
