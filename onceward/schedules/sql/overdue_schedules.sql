-- Return the schedules that are not paused and whose next run has been due for longer than $1 seconds.
select name, extract(epoch from onceward.now() - next_at)::float8 as age_s
  from onceward.schedules
 where paused_at is null and next_at < onceward.now() - make_interval(secs => $1)
   and abs(extract(epoch from onceward.now() - clock_timestamp())) < 60   -- not under the clock of a test
 order by next_at limit 100
