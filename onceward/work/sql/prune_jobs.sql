-- Delete finished jobs older than $1 with their attempts, at most $2 ids after the stored mark. Unfinished jobs stay.
with mark as (
    select coalesce((select through from onceward.prune_marks where name = 'jobs'), 0) as through
), window_ as (
    select id, created_at from onceward.jobs where id > (select through from mark) order by id limit $2
), old as (
    select id from window_ where created_at < onceward.now() - $1::interval
), unfinished as (
    insert into onceward.prune_later (id)
    select o.id from old o where exists (select from onceward.work w where w.id = o.id)
    on conflict do nothing
), gone as (
    delete from onceward.jobs j using old o
     where j.id = o.id and not exists (select from onceward.work w where w.id = o.id)
    returning j.id
), spent as (
    delete from onceward.attempts a using gone g where a.work_id = g.id
), moved as (
    insert into onceward.prune_marks (name, through)
    select 'jobs', max(id) from old having max(id) is not null
    on conflict (name) do update set through = excluded.through
)
select count(*) from gone
