-- Return which organizations wait outside lanes, by queue: their due work, exact up to $2, and how long the oldest has waited. The $1 that
-- wait longest come first. One index probe for each line that has waiting work.
with recursive waiting (queue, line) as (
    (select w.queue, w.line from onceward.work w
      where w.lease is null and w.lane is null and w.dead_reason is null
      order by w.queue, w.line limit 1)
    union all
    select n.queue, n.line
      from waiting b
     cross join lateral (
        select w.queue, w.line from onceward.work w
         where (w.queue, w.line) > (b.queue, b.line) and w.lease is null and w.lane is null and w.dead_reason is null
         order by w.queue, w.line limit 1) n
), oldest as (
    select b.queue, b.line, d.organization_id, d.sort_at
      from waiting b
     cross join lateral (
        select w.organization_id, w.sort_at from onceward.work w
         where w.queue = b.queue and w.line = b.line and w.lease is null and w.lane is null and w.dead_reason is null
           and w.sort_at <= onceward.now()
         order by w.sort_at limit 1) d
     where b.queue <> 'unhandled'
     order by d.sort_at limit $1
)
select l.queue, o.slug as organization, sum(c.count)::int as due,
       greatest(0, extract(epoch from onceward.now() - min(l.sort_at)))::float8 as oldest_due_s
  from oldest l
 cross join lateral (
    select count(*) from (
        select from onceward.work w
         where w.queue = l.queue and w.line = l.line and w.lease is null and w.lane is null and w.dead_reason is null
           and w.sort_at <= onceward.now()
         order by w.sort_at limit $2) d) c
  left join onceward.organizations o on o.organization_id = l.organization_id
 group by l.queue, l.organization_id, o.slug
 order by 4 desc, 1, 2
