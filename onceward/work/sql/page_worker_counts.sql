-- Count the workers, and those that are silent.
select count(*) as all, count(*) filter (where w.beat_at < clock_timestamp() - interval '15 seconds') as silent
  from onceward.workers w
