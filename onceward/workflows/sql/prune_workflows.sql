-- Delete old finished workflows without a key, with all that belongs to them.
with old as (
    select f.id from onceward.workflows f
     where f.finished_at < onceward.now() - $1::interval and f.key is null
       and not exists (select from onceward.work w where w.id = f.id)
     order by f.id limit $2
), steps as (
    delete from onceward.workflow_steps s using old o where s.workflow_id = o.id
), signals as (
    delete from onceward.workflow_signals s using old o where s.workflow_id = o.id
), attempts as (
    delete from onceward.attempts a using old o where a.work_id = o.id
)
delete from onceward.workflows f using old o where f.id = o.id
