-- List the steps of a workflow as an operator sees them.
select s.position, s.kind, s.key, s.name,
       case when s.kind = 'sleep' and s.due_at > onceward.now() then 'sleeping' else s.state end as state,
       s.attempts, s.result, s.error, s.due_at, s.ref as child_id, s.started_at, s.finished_at,
       case when s.kind = 'compensation' then (
           select n.key from onceward.workflow_steps n
            where n.workflow_id = s.workflow_id and n.position > s.position and n.kind <> 'compensation'
            order by n.position limit 1) end as compensation_of
  from onceward.workflow_steps s where s.workflow_id = $1 order by s.position
