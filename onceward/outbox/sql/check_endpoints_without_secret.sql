-- Find active endpoints without a valid secret: nothing could sign their deliveries.
select e.endpoint_id from onceward.endpoints e
 where e.active and not exists (
     select from onceward.endpoint_secrets s
      where s.endpoint_id = e.endpoint_id and (s.expires_at is null or s.expires_at > onceward.now())) limit 100
