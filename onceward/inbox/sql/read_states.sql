-- Return the state of events for which duplicates wait.
select e.seq, e.status, e.result, w.lease is not null as running
  from onceward.webhook_events e
  left join lateral (select lease from onceward.work where id = e.seq offset 0) w on true
 where e.seq = any($1)
