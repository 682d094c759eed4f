-- List the steps of a workflow for the dashboard.
select position, kind, key, name, state, attempts, result, error, due_at, ref, started_at, finished_at
  from onceward.workflow_steps where workflow_id = $1 order by position limit 500
