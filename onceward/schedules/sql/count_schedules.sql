-- Count all, paused, failing and late schedules.
select count(*) as all, count(*) filter (where s.paused_at is not null) as paused,
       count(*) filter (where r.status = 'failed') as failing,
       count(*) filter (where s.paused_at is null and s.next_at < onceward.now() - interval '2 minutes') as late
  from onceward.schedules s
  left join lateral (
      select r.status from onceward.runs r where r.schedule = s.name and r.status in ('success', 'failed') order by r.id desc limit 1
  ) r on true
