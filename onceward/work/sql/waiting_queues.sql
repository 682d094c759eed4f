-- Return the queues besides $1 in which work waits that has one of the tasks $2. Looks at the first 200 waiting rows of each queue: rows
-- whose task nobody knows are postponed, so that others come first.
with recursive ready (queue) as (
    (select w.queue from onceward.work w where w.lease is null and w.lane is null and w.dead_reason is null
      order by w.queue limit 1)
    union all
    select (select w.queue from onceward.work w
             where w.queue > r.queue and w.lease is null and w.lane is null and w.dead_reason is null
             order by w.queue limit 1)
      from ready r where r.queue is not null
), ordered (queue) as (
    (select w.queue from onceward.work w where w.lane is not null and w.ordered and w.lease is null and w.dead_reason is null
      order by w.queue limit 1)
    union all
    select (select w.queue from onceward.work w
             where w.queue > o.queue and w.lane is not null and w.ordered and w.lease is null and w.dead_reason is null
             order by w.queue limit 1)
      from ordered o where o.queue is not null
), laned (queue) as (
    (select w.queue from onceward.work w
      where w.lane is not null and w.ordered is not true and w.lease is null and w.dead_reason is null
      order by w.queue limit 1)
    union all
    select (select w.queue from onceward.work w
             where w.queue > l.queue and w.lane is not null and w.ordered is not true and w.lease is null and w.dead_reason is null
             order by w.queue limit 1)
      from laned l where l.queue is not null
)
select r.queue from ready r
 where not r.queue = any($1::text[]) and $2::text[] && array(
           select w.task from onceward.work w
            where w.queue = r.queue and w.lease is null and w.lane is null and w.dead_reason is null
            order by w.sort_at limit 200)
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
