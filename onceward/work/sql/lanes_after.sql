-- Return up to $3 lanes with waiting work that follow the lane $2 of the queue $1, by one index probe for each.
with recursive ordered (queue, lane, n) as (
    (select w.queue, w.lane, 1 from onceward.work w
      where (w.queue, w.lane) > ($1, $2) and w.lane is not null and w.ordered and w.lease is null and w.dead_reason is null
      order by w.queue, w.lane limit 1)
    union all
    select l.queue, l.lane, o.n + 1
      from ordered o cross join lateral (
          select w.queue, w.lane from onceward.work w
           where (w.queue, w.lane) > (o.queue, o.lane) and w.lane is not null and w.ordered and w.lease is null
             and w.dead_reason is null
           order by w.queue, w.lane limit 1) l
     where o.n < $3
), others (queue, lane, n) as (
    (select w.queue, w.lane, 1 from onceward.work w
      where (w.queue, w.lane) > ($1, $2) and w.lane is not null and w.ordered is not true and w.lease is null
        and w.dead_reason is null
      order by w.queue, w.lane limit 1)
    union all
    select l.queue, l.lane, o.n + 1
      from others o cross join lateral (
          select w.queue, w.lane from onceward.work w
           where (w.queue, w.lane) > (o.queue, o.lane) and w.lane is not null and w.ordered is not true and w.lease is null
             and w.dead_reason is null
           order by w.queue, w.lane limit 1) l
     where o.n < $3
)
select queue, lane from ordered union select queue, lane from others order by queue, lane limit $3
