-- Delete at most $2 rows that are kept only for their key, after the period in which duplicates are detected ($1).
with old as (
    select id from onceward.published
     where body is null and created_at < onceward.now() - $1::interval order by created_at limit $2
), gone as (
    delete from onceward.published p using old where p.id = old.id
)
select count(*) from old
