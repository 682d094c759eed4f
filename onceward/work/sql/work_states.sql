-- Return the state of work items: that of the unfinished row, or that of the last attempt.
select w.id, case when w.dead_reason is not null then 'dead_letter' when w.lease is null then 'pending'
                  when exists (select from onceward.workers o where w.id = any(o.overdue)) then 'overdue' else 'processing' end as state,
       w.attempts::int as attempts, null::timestamptz as finished_at
from onceward.work w where w.id = any($1)
union all
select * from (
    select distinct on (work_id) work_id,
           case outcome when 'retry' then 'pending' when 'discarded' then 'cancelled' else outcome end,
           number::int, finished_at
    from onceward.attempts where work_id = any($1)
    order by work_id, number desc, finished_at desc) last
