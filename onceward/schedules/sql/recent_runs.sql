-- Return the latest 20 runs of each schedule.
select r.schedule, r.status, r.id, r.due_at from onceward.schedules s
 cross join lateral (select * from onceward.runs r where r.schedule = s.name order by r.id desc limit 20) r
