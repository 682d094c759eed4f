-- Delete finished events that are older than the period in which duplicates are detected ($1), and return how many of the
-- next $2 events after the mark were old. Dead letters are never deleted.
with mark as (
    select coalesce((select through from onceward.prune_marks where name = 'event keys'), 0) as through
), next_ as materialized (
    select e.seq, e.status, e.received_at < onceward.now() - $1::interval as is_old
      from onceward.webhook_events e where e.seq > (select through from mark) order by e.seq limit $2
), old as materialized (
    select * from next_ where seq < coalesce((select min(seq) from next_ where not is_old), 9223372036854775807)
), gone as (
    delete from onceward.webhook_events e using old where e.seq = old.seq and old.status in ('success', 'failed')
), moved as (
    insert into onceward.prune_marks (name, through)
    select 'event keys', max(seq) from old having max(seq) is not null
    on conflict (name) do update set through = excluded.through
)
select (select count(*) from old)::int
