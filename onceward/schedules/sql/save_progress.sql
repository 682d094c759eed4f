-- Store the counts of a run, and of the organizations that it reached, fenced by the lease. Return no row if the lease is lost.
with held as (select id from onceward.work where id = $id and lease = $lease for share),
parts as (
    insert into onceward.run_parts as p
           (run_id, schedule, organization_id, step, processed, succeeded, failed, skipped)
    select h.id, $schedule, i.organization_id, i.step, i.succeeded + i.failed + i.skipped, i.succeeded, i.failed, i.skipped
      from held h, unnest($organizations::uuid[], $steps::text[], $part_succeeded::bigint[], $part_failed::bigint[],
          $part_skipped::bigint[])
                   as i (organization_id, step, succeeded, failed, skipped)
    on conflict (run_id, organization_id, step) do update
        set processed = excluded.processed, succeeded = excluded.succeeded, failed = excluded.failed,
            skipped = excluded.skipped, updated_at = onceward.now()
)
update onceward.runs r set processed = $processed, succeeded = $succeeded, failed = $failed, skipped = $skipped
    from held where r.id = held.id
returning r.id
