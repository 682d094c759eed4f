-- Free slots whose work has ended without freeing them.
delete from onceward.limit_slots s
 where (s.organization_id, s.key, s.slot) in (
     select f.organization_id, f.key, f.slot from onceward.limit_slots f
      where not exists (select from onceward.work w where w.id = f.work_id and w.dead_reason is null)
        and f.taken_at < clock_timestamp() - interval '1 minute'
        for update skip locked)
returning s.key
