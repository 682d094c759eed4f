-- Acknowledge successes, fenced by lease. Returns the ids that were acknowledged; other ids had lost their lease.
with done as (
    delete from onceward.work
     where id = any($1::bigint[]) and lease = any($2::bigint[])
    returning id, organization_id, attempts, kind, task, claimed_at
), noted as (
    insert into onceward.attempts
        (work_id, organization_id, number, kind, task, outcome, worker, started_at, finished_at, result)
    select id, organization_id, attempts + 1, kind, task, 'success', $3, claimed_at,
           (select clock_timestamp()),   -- one value for all rows: each new value would change the index's summary of the page
           $4::jsonb -> id::text
      from done
)
select id from done
