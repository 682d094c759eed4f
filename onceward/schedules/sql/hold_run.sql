-- Create a run whose work this process holds from the start, so that no other worker can claim it.
with written as (
    insert into onceward.runs (id, schedule, due_at, origin, scope, asked_by)
    values ($1::bigint, $2, greatest(onceward.now(), clock_timestamp()), 'operator', coalesce($3::bigint, $1), $4)
), body as (
    insert into onceward.jobs (id, task, args) values ($1, $5::text, '{}')
), held as (
    insert into onceward.work (id, kind, task, queue, sort_at, max_attempts, lease, claimed_at, lane, cap, slot)
    values ($1, 'job', $5, $6, onceward.now(), 1, $7::bigint, clock_timestamp(), $8, $9::smallint, $9)
)
insert into onceward.claims (lease, worker, ids) values ($7, $10, array[$1])
