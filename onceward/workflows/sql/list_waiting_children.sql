-- Return the child workflows for which a workflow waits.
select s.ref from onceward.workflow_steps s
 where s.workflow_id = $1 and s.kind = 'child' and s.state = 'waiting' and s.ref is not null order by s.ref
