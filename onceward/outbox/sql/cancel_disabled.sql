-- End waiting deliveries to disabled endpoints. A delivery that is being sent is left to its worker.
with off as (
    select w.id
      from onceward.endpoints e
      join onceward.work w on w.lane = e.endpoint_id::text and w.queue in ('deliveries', 'deliveries-retry')
     where not e.active and w.kind = 'delivery' and w.lease is null and w.dead_reason is null
     limit $1 for update of w skip locked
), ended as (
    delete from onceward.work w using off where w.id = off.id
    returning w.id, w.organization_id, w.attempts, w.task
), failed as (
    update onceward.deliveries d
       set status = 'failed', error = 'the endpoint is disabled', failed_at = coalesce(d.failed_at, onceward.now())
      from ended where d.id = ended.id
)
select count(*)::int,
       onceward.record_attempts(array_agg(row(
           id, organization_id, attempts + 1, 'delivery', task, 'cancelled', null, clock_timestamp(), clock_timestamp(), null,
           '{"type": "EndpointDisabled", "message": "the endpoint is disabled", "reason": "endpoint_disabled"}'
       )::onceward.attempts))
  from ended
