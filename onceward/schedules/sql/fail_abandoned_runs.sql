-- Mark runs as failed whose work was cancelled or became a dead letter.
update onceward.runs r
   set status = 'failed', finished_at = onceward.now(),
       reason = coalesce(w.dead_reason, (select a.error ->> 'reason' from onceward.attempts a
                                          where a.work_id = u.id order by a.finished_at desc limit 1), 'cancelled')
  from onceward.runs u
  left join onceward.work w on w.id = u.id
 where u.id = r.id and r.status in ('pending', 'running') and r.created_at < onceward.now() - interval '5 seconds'
   and (w.id is null or w.dead_reason is not null)
returning r.id, r.schedule, r.reason
