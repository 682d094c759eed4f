-- End up to $1 waiting deliveries to disabled endpoints. A delivery that is being sent is left to its worker.
with off as (
    -- By the two indexes of lanes.
    select o.id from (
        select locked.id
          from (select e.endpoint_id::text as lane from onceward.endpoints e where not e.active) o
          cross join (values ('deliveries'), ('deliveries-retry')) q (queue)
          cross join lateral (
              select w.id from onceward.work w
               where w.queue = q.queue and w.lane = o.lane and w.ordered and w.kind = 'delivery'
                 and w.lease is null and w.dead_reason is null
               order by w.id limit $1 for update skip locked) locked
        union all
        select locked.id
          from (select e.endpoint_id::text as lane from onceward.endpoints e where not e.active) o
          cross join (values ('deliveries'), ('deliveries-retry')) q (queue)
          cross join lateral (
              select w.id from onceward.work w
               where w.queue = q.queue and w.lane = o.lane and w.ordered is not true and w.kind = 'delivery'
                 and w.lease is null and w.dead_reason is null
               order by w.sort_at, w.id limit $1 for update skip locked) locked
    ) o limit $1
), ended as (
    delete from onceward.work w using off where w.id = off.id
    returning w.id, w.organization_id, w.attempts, w.earlier, w.task
), failed as (
    update onceward.deliveries d
       set status = 'failed', error = 'the endpoint is disabled', failed_at = coalesce(d.failed_at, onceward.now())
      from ended where d.id = ended.id
)
select count(*)::int,
       onceward.record_attempts(array_agg(row(
           id, organization_id, attempts + 1, 'delivery', task, 'cancelled', null, clock_timestamp(), clock_timestamp(), null,
           '{"type": "EndpointDisabled", "message": "the endpoint is disabled", "reason": "endpoint_disabled"}', earlier
       )::onceward.attempt))
  from ended
