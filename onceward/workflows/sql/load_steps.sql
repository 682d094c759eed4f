-- Return the recorded steps of claimed workflows.
select workflow_id, position, kind, key, state, attempts, result::text, error, due_at, ref
  from onceward.workflow_steps where workflow_id = any($1::bigint[])
