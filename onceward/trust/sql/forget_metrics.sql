-- Delete at most $2 system metrics older than $1; return how many.
with old as (
    select m.id from onceward.system_metrics m where m.timestamp < onceward.now() - $1::interval order by m.timestamp limit $2
), gone as (
    delete from onceward.system_metrics m using old o where m.id = o.id
)
select count(*)::int from old
