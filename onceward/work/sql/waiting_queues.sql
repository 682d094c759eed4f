-- Return the queues besides $1 in which work waits that has one of the tasks $2. Looks at the first 200 waiting rows of each queue: rows
-- whose task nobody knows are postponed, so that others come first.
with ready as (
    select r.queue from onceward.queues_outside_lanes() r (queue)
), ordered as (
    select o.queue from onceward.queues_in_ordered_lanes() o (queue)
), laned as (
    select l.queue from onceward.queues_in_other_lanes() l (queue)
)
select r.queue from ready r
 where not r.queue = any($1::text[]) and ($2::text[] && array(
           select w.task from onceward.work w
            where w.queue = r.queue and w.line = 0 and w.lease is null and w.lane is null and w.dead_reason is null
            order by w.sort_at limit 200)
        or $2::text[] && array(
           select w.task from onceward.work w
            where w.queue = r.queue and w.line <> 0 and w.lease is null and w.lane is null and w.dead_reason is null
            order by w.sort_at limit 200))
union
select o.queue from ordered o
 where not o.queue = any($1::text[]) and $2::text[] && array(
           select w.task from onceward.work w
            where w.queue = o.queue and w.lane is not null and w.ordered and w.lease is null and w.dead_reason is null
            order by w.lane, w.id limit 200)
union
select l.queue from laned l
 where not l.queue = any($1::text[]) and $2::text[] && array(
           select w.task from onceward.work w
            where w.queue = l.queue and w.lane is not null and w.ordered is not true and w.lease is null and w.dead_reason is null
            order by w.lane, w.sort_at, w.id limit 200)
 order by 1
