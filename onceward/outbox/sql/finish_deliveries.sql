-- Acknowledge delivered webhooks together: fenced by lease; their endpoints are well again.
-- The commit need not be on disk: one that a crash of the server forgets is sent again under the same webhook-id.
with done as materialized (
    delete from onceward.work
     where id = any($1::bigint[]) and lease = any($2::bigint[])
    returning id, organization_id, attempts, kind, task, lane, claimed_at
), noted as (
    insert into onceward.attempts
        (work_id, organization_id, number, kind, task, outcome, worker, started_at, finished_at, result)
    select id, organization_id, attempts + 1, kind, task, 'success', $3, claimed_at,
           (select clock_timestamp()),   -- one for all: each new one would change the index's summary of the page
           $4::jsonb -> id::text
      from done
), told as (
    update onceward.deliveries d
       set status = 'success', attempts = d.attempts + 1, error = null, last_attempt_at = onceward.now(),
           response_status = ($4::jsonb -> d.id::text ->> 'status')::smallint
     where d.id = any(array(select id from done))
), well as (
    update onceward.lanes l set failures = 0, open_until = null
     where l.queue in ('deliveries', 'deliveries-retry') and l.lane = any(array(select distinct lane from done))
       and (l.failures > 0 or l.open_until is not null)
)
select id from done where (select set_config('synchronous_commit', 'off', true)) = 'off'
