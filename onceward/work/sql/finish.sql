-- Acknowledge successes, fenced by lease. Returns how many were acknowledged; the others had lost their lease, or must run again.
with done as (
    delete from onceward.work
     where id = any($1::bigint[]) and lease = any($2::bigint[]) and replaced_under is distinct from lease
    returning id, organization_id, attempts, earlier, kind, task, claimed_at
)
select count(*)::int,
       onceward.record_attempts(array_agg(row(
           id, organization_id, attempts + 1, kind, task, 'success', $3::bigint, claimed_at,
           (select clock_timestamp()),   -- one value for all rows: each new value would change the index's summary of the page
           $4::jsonb -> id::text, null, earlier
       )::onceward.attempt))
  from done
