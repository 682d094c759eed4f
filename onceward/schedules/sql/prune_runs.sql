-- Delete at most $2 old finished runs with their items, unless an unfinished run continues them. Returns how many.
with old as materialized (
    select r.id, r.scope from onceward.runs r
     where r.finished_at < onceward.now() - $1::interval
       and not exists (select from onceward.runs u
                        where u.schedule = r.schedule and u.scope = r.scope and u.status in ('pending', 'running'))
     order by r.finished_at limit $2
), marks as (
    delete from onceward.run_items i using old o where i.scope = o.scope
), parts as (
    delete from onceward.run_parts p using old o where p.run_id = o.id
), gone as (
    delete from onceward.runs r using old o where r.id = o.id
)
select count(*) from old
