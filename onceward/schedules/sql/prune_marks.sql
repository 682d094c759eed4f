-- Delete the marks of finished items of old successful runs. This does not happen at the end of a run: a worker that
-- stalled and continues later must still see which items are done.
with old as materialized (
    select r.id, r.scope from onceward.runs r
     where r.status = 'success' and r.has_marks and r.finished_at < onceward.now() - $1::interval
       and not exists (select from onceward.runs u
                        where u.schedule = r.schedule and u.scope = r.scope and u.status in ('pending', 'running'))
     order by r.finished_at limit 100
), marks as (
    delete from onceward.run_items i using old o where i.scope = o.scope and i.outcome <> 'failed'
), noted as (
    update onceward.runs r set has_marks = false from old o where r.id = o.id
)
select count(*) from old
