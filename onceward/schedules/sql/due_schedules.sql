-- Lock the schedules that are due. Other nodes skip them. A decision about the future was made before the clock moved back: it is
-- made again, and due times that have a run already do not get another one.
select name, decided_until, onceward.now() as now
  from onceward.schedules
 where name = any($1::text[]) and paused_at is null
   and (next_at <= onceward.now() or decided_until > onceward.now() + interval '5 seconds')
 order by next_at
   for update skip locked
