-- Delete at most $2 workflows without a key that finished before $1, with all that belongs to them; return their number.
with old as materialized (
    select f.id from onceward.workflows f
     where f.finished_at < onceward.now() - $1::interval and f.key is null
       and not exists (select from onceward.work w where w.id = f.id)
     order by f.finished_at limit $2
), steps as (
    delete from onceward.workflow_steps s using old o where s.workflow_id = o.id
), signals as (
    delete from onceward.workflow_signals s using old o where s.workflow_id = o.id
), attempts as (
    delete from onceward.attempts a using old o where a.work_id = o.id
), gone as (
    delete from onceward.workflows f using old o where f.id = o.id
)
select count(*) from old
