-- Find active endpoints with many failed deliveries since they were last enabled.
select e.endpoint_id, e.organization_id, e.warned_at, f.failed, f.first_at, f.last_at
  from onceward.endpoints e
 cross join lateral (
    select count(*) as failed, min(d.failed_at) as first_at, max(d.failed_at) as last_at
      from onceward.deliveries d
     where d.endpoint_id = e.endpoint_id and d.failed_at is not null
       and d.failed_at > greatest(e.enabled_at, onceward.now() - $1::interval)
 ) f
 where e.active and f.failed >= $2
