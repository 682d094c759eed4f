-- Let a failed workflow run again from the step that failed it.
with again as (
    -- The step that failed the workflow, and steps that failed in parallel. Failures that the code caught earlier stay.
    delete from onceward.workflow_steps s
     where s.workflow_id = $1 and s.state = 'failed' and s.position >= (
         select b.position from onceward.workflow_steps b join onceward.workflows f on f.id = b.workflow_id
          where f.id = $1 and b.key = f.error ->> 'step')
)
update onceward.workflows set state = 'running', ending = null, error = null, finished_at = null where id = $1
returning organization_id, name
