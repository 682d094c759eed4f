-- Add the attempts that were committed since the mark $1 and before $2 to the statistics of their endpoints.
insert into onceward.endpoint_statistics as s (endpoint_id, organization_id, succeeded, failed, last_triggered_at)
select d.endpoint_id, e.organization_id, count(*) filter (where a.outcome = 'success' and not coalesce(a.result ? 'skipped', false)),
       count(*) filter (where a.outcome <> 'success'), max(a.finished_at) filter (where not coalesce(a.result ? 'skipped', false))
  from onceward.attempts a
  join onceward.deliveries d on d.id = a.work_id
  join onceward.endpoints e on e.endpoint_id = d.endpoint_id
 where a.finished_at >= $1 and a.finished_at < $2 and a.kind = 'delivery'
   and a.outcome in ('success', 'retry', 'failed', 'dead_letter', 'unknown')
 group by d.endpoint_id, e.organization_id
on conflict (endpoint_id) do update
   set succeeded = s.succeeded + excluded.succeeded, failed = s.failed + excluded.failed,
       last_triggered_at = greatest(s.last_triggered_at, excluded.last_triggered_at)
