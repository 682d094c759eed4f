-- Note in onceward.unserved that no running version of its task accepts the work $1.
insert into onceward.unserved as u (queue, task, kind, reason, waiting)
select w.queue, w.task, w.kind, 'no_version', 1 from onceward.work w where w.id = $1
on conflict (queue, task, reason) do update set seen_at = onceward.now()
returning u.queue, u.task, u.since = u.seen_at as is_new
