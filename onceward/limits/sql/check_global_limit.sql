-- Find slots above the limit that were taken after the limit was last changed.
select s.slot, s.work_id, l.at_most from onceward.limits l join onceward.limit_slots s on s.key = l.name
  join onceward.work w on w.id = s.work_id and w.dead_reason is null
  where s.slot > l.at_most and s.taken_at > l.changed_at + interval '1 second' limit 100
