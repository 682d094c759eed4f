-- Delete finished jobs older than $1 with their attempts, and return how many of the next $2 ids after the mark were old.
-- The mark stops before the first job that is not old yet. Unfinished jobs and dead letters stay, to be looked at again.
with mark as (
    select coalesce((select through from onceward.prune_marks where name = 'jobs'), 0) as through
), next_ as materialized (
    select id, created_at < onceward.now() - $1::interval as is_old
      from onceward.jobs where id > (select through from mark) order by id limit $2
), old as materialized (
    select id from next_ where id < coalesce((select min(id) from next_ where not is_old), 9223372036854775807)
), unfinished as (
    insert into onceward.prune_later (name, id)
    select 'jobs', o.id from old o where exists (select from onceward.work w where w.id = o.id)
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
select count(*) from old
