-- Record steps of many workflows in one commit. Returns a row for each recorded step; the others lost their lease,
-- were already answered, or rely on steps that the history lacks.
with input as materialized (
    select * from unnest($1::bigint[], $2::bigint[], $3::int[], $4::text[], $5::text[], $6::text[], $7::text[], $8::int[],
                         $9::text[], $10::text[], $11::float8[], $12::timestamptz[], $13::text[], $14::text[])
        as i (workflow_id, lease, position, kind, key, name, state, attempts, result, error, due_s, started_at, required, finished)
), held as materialized (
    -- Share-locked: a transaction that takes the lease away waits for this commit, and then sees it.
    select id, lease, organization_id from onceward.work
     where id = any($1::bigint[]) and lease = any($2::bigint[]) order by id for share
)
insert into onceward.workflow_steps as s
    (workflow_id, position, organization_id, kind, key, name, state, attempts, result, error, due_at, started_at, finished_at)
select i.workflow_id, i.position, h.organization_id, i.kind, i.key, i.name, i.state, i.attempts, i.result::json, i.error::jsonb,
       onceward.now() + make_interval(secs => i.due_s), i.started_at,
       case when i.state in ('done', 'failed') then clock_timestamp() end
  from input i join held h on h.id = i.workflow_id and h.lease = i.lease
 where not onceward.workflow_lacks(i.workflow_id, i.required::int[], i.finished::boolean[])
 order by i.workflow_id, i.position
on conflict (workflow_id, position) do update
    set state = excluded.state, attempts = excluded.attempts, result = excluded.result, error = excluded.error,
        due_at = excluded.due_at, finished_at = excluded.finished_at
    where s.state in ('retry', 'waiting', 'registered') or (s.kind = 'compensation' and s.state = 'failed')
returning workflow_id, position, due_at
