-- List how many slots are held, per key and organization, most first.
select s.key, nullif(s.organization_id, '00000000-0000-0000-0000-000000000000') as organization_id, count(*)::int as held,
       l.at_most, min(s.taken_at) as oldest
  from onceward.limit_slots s
  left join onceward.limits l on l.name = s.key
 where exists (select from onceward.work w where w.id = s.work_id and w.dead_reason is null)
 group by s.key, s.organization_id, l.at_most order by held desc, s.key, s.organization_id limit $1
