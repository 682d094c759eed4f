-- Delete events that had an unfinished delivery when the mark passed them, and have none any more. At most $1.
with ended as materialized (
    select p.id from onceward.prune_later p
     where p.name = 'published'
       and not exists (select from onceward.deliveries d join onceward.work k on k.id = d.id where d.caused_by = p.id) limit $1
), gone as (
    delete from onceward.deliveries d using ended e where d.caused_by = e.id returning d.id
), spent as (
    delete from onceward.attempts a using gone where a.work_id = gone.id
), stripped as (
    update onceward.published p set body = null from ended e where p.id = e.id and p.key is not null
), dropped as (
    delete from onceward.published p using ended e where p.id = e.id and p.key is null
), forgotten as (
    delete from onceward.prune_later p using ended e where p.name = 'published' and p.id = e.id
)
select count(*) from ended
