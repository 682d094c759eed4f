-- Return the work that holds slots, per key.
select s.organization_id || ':' || s.key as key, array_agg(s.work_id::text) as owners from onceward.limit_slots s
 where exists (select from onceward.work w where w.id = s.work_id and w.dead_reason is null)
 group by s.organization_id, s.key
