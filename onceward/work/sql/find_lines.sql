-- Return every line of queue $1 with due work outside lanes, with its organization and weight. One index probe for each line that has
-- waiting work, however much it has.
with recursive waiting (line) as (
    (select w.line from onceward.work w
      where w.queue = $1 and w.lease is null and w.lane is null and w.dead_reason is null
      order by w.line limit 1)
    union all
    select (select w.line from onceward.work w
             where w.queue = $1 and w.line > l.line and w.lease is null and w.lane is null and w.dead_reason is null
             order by w.line limit 1)
      from waiting l where l.line is not null
)
select l.line, d.organization_id, coalesce(o.weight, 1)::int as weight, onceward.now() as at
  from waiting l
 cross join lateral (
    select w.organization_id from onceward.work w
     where w.queue = $1 and w.line = l.line and w.lease is null and w.lane is null and w.dead_reason is null
       and w.sort_at <= onceward.now()
     order by w.sort_at limit 1) d
  left join onceward.organizations o on o.organization_id = d.organization_id
 limit 50000
