-- Hold the work with a lease, as the worker that runs it would: a fenced commit of its handler then finds the lease.
insert into onceward.work as w (id, organization_id, line, kind, task, queue, sort_at, attempts, lease, claimed_at)
values ($id, $organization, onceward.line_of($organization, null), $kind, $task, 'rehearsal', onceward.now(),
    $attempts, $lease, clock_timestamp())
    on conflict (id) do update set lease = excluded.lease, claimed_at = excluded.claimed_at, dead_reason = null, dead_at = null
