-- Lock the schedules that are due. Other nodes skip them.
select name, decided_until, onceward.now() as now
  from onceward.schedules
 where name = any($1::text[]) and paused_at is null and next_at <= onceward.now()
 order by next_at
   for update skip locked
