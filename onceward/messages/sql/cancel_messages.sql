-- Cancel messages. If a worker is at one, ask the worker to stop before sending.
with selected as (
    select m.id from onceward.messages m
     where coalesce(m.organization_id, '00000000-0000-0000-0000-000000000000')
           = coalesce($1::uuid, '00000000-0000-0000-0000-000000000000') and m.key = any($2::text[])
), waiting as (
    delete from onceward.work w using selected where w.id = selected.id and w.lease is null
    returning w.id, w.organization_id, w.attempts, w.earlier, w.task
), recorded as materialized (
    select onceward.record_attempts(array_agg(row(
               id, organization_id, attempts + 1, 'message', task, 'cancelled', null, null, clock_timestamp(), null,
               jsonb_build_object('type', 'Cancelled', 'message', $3::text), earlier
           )::onceward.attempt))
      from waiting
), running as (
    -- The sender may be rendering or waiting for a slot; it checks this flag before it sends.
    update onceward.work w set cancel = true from selected where w.id = selected.id and w.lease is not null returning w.id
), cancelled as (
    update onceward.messages m set status = 'cancelled', reason = $3 from waiting where m.id = waiting.id returning m.id
)
select (select count(*) from cancelled) as cancelled, (select count(*) from running) as running from recorded
