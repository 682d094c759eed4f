-- Count the deliveries to an endpoint that succeeded without counting as failed, since it was last enabled.
select count(*) from onceward.deliveries d
 where d.endpoint_id = $1 and d.status = 'success' and d.failed_at is null
   and d.id >= coalesce((select min(p.id) from onceward.published p where p.created_at > onceward.now() - $2::interval), 0)
   and d.last_attempt_at > (select e.enabled_at from onceward.endpoints e where e.endpoint_id = $1)
