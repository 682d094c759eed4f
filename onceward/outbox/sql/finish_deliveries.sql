-- Settle a batch of successful deliveries, fenced by their leases, and close the circuit breakers of their endpoints.
-- The commit does not wait for the disk: a delivery whose commit is lost in a crash is sent again with the same webhook-id.
with done as materialized (
    delete from onceward.work
     where id = any($1::bigint[]) and lease = any($2::bigint[])
    returning id, organization_id, attempts, earlier, kind, task, lane, claimed_at
), updated as (
    update onceward.deliveries d
       set status = case when $4::jsonb -> d.id::text ? 'skipped' then 'skipped' else 'success' end,
           attempts = d.attempts + case when $4::jsonb -> d.id::text ? 'skipped' then 0 else 1 end, error = null,
           last_attempt_at = onceward.now(),
           response_status = ($4::jsonb -> d.id::text ->> 'status')::smallint
     where d.id = any(array(select id from done))
), recovered as (
    update onceward.lanes l set failures = 0, open_until = null
     where l.queue in ('deliveries', 'deliveries-retry') and l.lane = any(array(select distinct lane from done))
       and (l.failures > 0 or l.open_until is not null)
)
select count(*)::int,
       onceward.record_attempts(array_agg(row(
           id, organization_id, attempts + 1, kind, task, 'success', $3::bigint, claimed_at,
           (select clock_timestamp()),   -- one time for all rows: each new time would update the block range summary of the index
           $4::jsonb -> id::text, null, earlier
       )::onceward.attempt))
  from done where (select set_config('synchronous_commit', 'off', true)) = 'off'
