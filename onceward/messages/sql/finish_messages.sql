-- Acknowledge messages that were sent or suppressed, fenced by lease. Returns how many were acknowledged; the others had lost
-- their lease.
with done as (
    delete from onceward.work
     where id = any($1::bigint[]) and lease = any($2::bigint[])
    returning id, organization_id, attempts, earlier, kind, task, claimed_at
), settled as materialized (
    select onceward.settled_message(id, 'success', attempts + 1, $4::jsonb -> id::text, null)
      from (select * from done order by id) d
)
select count(*)::int,
       onceward.record_attempts(array_agg(row(
           id, organization_id, attempts + 1, kind, task, 'success', $3::bigint, claimed_at,
           (select clock_timestamp()),   -- one value for all rows: each new value would change the index's summary of the page
           $4::jsonb -> id::text, null, earlier
       )::onceward.attempt))
  from done where (select count(*) from settled) > 0
