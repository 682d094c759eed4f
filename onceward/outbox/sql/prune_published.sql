-- Delete events older than $1 with their deliveries and attempts, and return how many of the next $2 events after the mark
-- were old. Events with a key keep their row without the body, as protection against duplicates. The mark stops before the
-- first event that is not old yet; events with an unfinished delivery are looked at again later.
with mark as (
    select coalesce((select through from onceward.prune_marks where name = 'published'), 0) as through
), next_ as materialized (
    select p.id, p.created_at < onceward.now() - $1::interval as is_old
      from onceward.published p where p.id > (select through from mark) order by p.id limit $2
), old as materialized (
    select n.id, exists (select from onceward.deliveries d join onceward.work k on k.id = d.id where d.caused_by = n.id) as waits
      from next_ n where n.id < coalesce((select min(id) from next_ where not is_old), 9223372036854775807)
), later as (
    insert into onceward.prune_later (name, id) select 'published', id from old where waits on conflict do nothing
), gone as (
    delete from onceward.deliveries d using old where d.caused_by = old.id and not old.waits returning d.id
), spent as (
    delete from onceward.attempts a using gone where a.work_id = gone.id
), stripped as (
    update onceward.published p set body = null from old where p.id = old.id and not old.waits and p.key is not null
), dropped as (
    delete from onceward.published p using old where p.id = old.id and not old.waits and p.key is null
), moved as (
    insert into onceward.prune_marks (name, through)
    select 'published', max(id) from old having max(id) is not null
    on conflict (name) do update set through = excluded.through
)
select count(*) from old
