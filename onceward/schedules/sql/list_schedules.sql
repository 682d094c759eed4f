-- List the schedules, each with its latest run.
select s.name, coalesce(s.cron, case
         when mod(s.every_s::numeric, 86400) = 0 then 'every ' || coalesce(nullif((s.every_s / 86400)::int, 1) || ' days', 'day')
         when mod(s.every_s::numeric, 3600) = 0 then 'every ' || coalesce(nullif((s.every_s / 3600)::int, 1) || ' hours', 'hour')
         when mod(s.every_s::numeric, 60) = 0 then 'every ' || coalesce(nullif((s.every_s / 60)::int, 1) || ' minutes', 'minute')
         else 'every ' || s.every_s || ' s' end) as "when", s.tz, s.missed, s.overlap, s.jitter_s,
       s.paused_at, s.paused_by, case when s.paused_at is null then s.next_at end as next_at,
       r.id as last_run, r.status as last_status, r.due_at as last_due, r.started_at as last_started,
       r.duration_ms as last_duration_ms
  from onceward.schedules s
  left join lateral (select * from onceward.runs r where r.schedule = s.name order by r.id desc limit 1) r on true
 order by s.name
