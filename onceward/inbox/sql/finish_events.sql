-- Acknowledge events that were handled without a transaction, fenced by lease, like `finish.sql` of jobs. Returns how many were
-- acknowledged; the others had lost their lease.
with done as (
    delete from onceward.work
     where id = any($1::bigint[]) and lease = any($2::bigint[])
    returning id, organization_id, attempts, earlier, kind, task, claimed_at
), recorded as (
    select count(*)::int as count, array_agg(row(
               id, organization_id, attempts + 1, kind, task, 'success', $3::bigint, claimed_at, (select clock_timestamp()),
               $4::jsonb -> id::text, null, earlier)::onceward.attempt) as attempts
      from done
)
select count, onceward.record_attempts(attempts), onceward.succeeded_events(attempts) from recorded
