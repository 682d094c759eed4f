-- Create a run whose work this process holds from the start, so that no other worker can claim it.
with written as (
    insert into onceward.runs (id, schedule, due_at, origin, scope, asked_by)
    values ($id::bigint, $schedule, greatest(onceward.now(), clock_timestamp()), 'operator', coalesce($scope::bigint, $id), $asked_by)
), body as (
    insert into onceward.jobs (id, task, args) values ($id, $task::text, '{}')
), held as (
    insert into onceward.work (id, kind, task, queue, sort_at, max_attempts, lease, claimed_at, lane, cap, slot)
    values ($id, 'job', $task, $queue, onceward.now(), 1, $lease::bigint, clock_timestamp(), $lane, $slot::smallint, $slot)
)
insert into onceward.claims (lease, worker, ids) values ($lease, $worker, array[$id])
