-- Find ended workflows that did not run a compensation, unless an operator discarded them.
select f.id, f.name, s.key from onceward.workflows f join onceward.workflow_steps s on s.workflow_id = f.id
  where f.ending is not null and f.state in ('failed', 'cancelled') and s.kind = 'compensation'
  and s.state <> 'done' and not exists (
     select from onceward.attempts a where a.work_id = f.id and a.outcome = 'discarded') limit 100
