-- Delete old events with their deliveries and attempts. Events with a key keep their row without the body, as
-- protection against duplicates.
with mark as (
    select coalesce((select through from onceward.prune_marks where name = 'published'), 0) as through
), window_ as (
    select p.id, p.created_at from onceward.published p where p.id > (select through from mark) order by p.id limit $2
), old as (
    select w.id from window_ w where w.created_at < onceward.now() - $1::interval
       and not exists (select from onceward.deliveries d join onceward.work k on k.id = d.id where d.caused_by = w.id)
), gone as (
    delete from onceward.deliveries d using old where d.caused_by = old.id returning d.id
), spent as (
    delete from onceward.attempts a using gone where a.work_id = gone.id
), stripped as (
    update onceward.published p set body = null from old where p.id = old.id and p.key is not null
), dropped as (
    delete from onceward.published p using old where p.id = old.id and p.key is null
), moved as (
    insert into onceward.prune_marks (name, through)
    select 'published', max(w.id) from window_ w where w.created_at < onceward.now() - $1::interval
       and w.id < coalesce((select min(x.id) from window_ x
                             where x.created_at < onceward.now() - $1::interval and x.id not in (select id from old)),
                           9223372036854775807)
    having max(w.id) is not null
    on conflict (name) do update set through = excluded.through
)
select count(*) from old
