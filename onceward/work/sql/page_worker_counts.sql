-- Count the workers, and those that stop or are silent.
select count(*) as all, count(*) filter (where w.stopping) as stopping,
       count(*) filter (where w.beat_at < clock_timestamp() - interval '15 seconds') as silent
  from onceward.workers w
