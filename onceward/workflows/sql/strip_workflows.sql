-- Delete the steps of workflows with a key that finished before $1; return how many workflows after the mark were looked at.
-- The workflow stays, as protection against a second start. The mark is the time of the last end, in microseconds.
with mark as (
    select coalesce((select through from onceward.prune_marks where name = 'workflows with a key'), 0) as through
), last_ as (
    select max(finished_at) as at from (
        select f.finished_at from onceward.workflows f
         where f.key is not null and f.finished_at < onceward.now() - $1::interval
           and f.finished_at > timestamptz 'epoch' + (select through from mark) * interval '1 microsecond'
         order by f.finished_at limit $2
    ) next_
), old as materialized (
    select f.id from onceward.workflows f
     where f.key is not null and f.finished_at <= (select at from last_)
       and f.finished_at > timestamptz 'epoch' + (select through from mark) * interval '1 microsecond'
), attempts as (
    delete from onceward.attempts a using old o where a.work_id = o.id
), steps as (
    delete from onceward.workflow_steps s using old o where s.workflow_id = o.id
), moved as (
    insert into onceward.prune_marks (name, through)
    select 'workflows with a key', (extract(epoch from at) * 1000000)::bigint from last_ where at is not null
    on conflict (name) do update set through = excluded.through
)
select count(*) from old
