-- Acknowledge successes that need nothing more: fenced by lease, no join, ids that came back are the ones that counted.
with done as (
    delete from onceward.work
     where id = any($1::bigint[]) and lease = any($2::bigint[])
    returning id, organization_id, attempts, kind, task, claimed_at
), noted as (
    insert into onceward.attempts
        (work_id, organization_id, number, kind, task, outcome, worker, started_at, finished_at, result)
    select id, organization_id, attempts + 1, kind, task, 'success', $3, claimed_at,
           (select clock_timestamp()),   -- one for all: each new one would change the index's summary of the page
           $4::jsonb -> id::text
      from done
)
select id from done
