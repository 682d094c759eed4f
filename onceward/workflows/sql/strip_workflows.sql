-- Delete the steps of old finished workflows with a key. The workflow stays, as protection against a second start.
with old as (
    select f.id from onceward.workflows f
     where f.finished_at < onceward.now() - $1::interval and f.key is not null
       and exists (select from onceward.workflow_steps s where s.workflow_id = f.id)
     order by f.id limit $2
), attempts as (
    delete from onceward.attempts a using old o where a.work_id = o.id
)
delete from onceward.workflow_steps s using old o where s.workflow_id = o.id
