-- Delete the content of finished messages older than $1, and return how many of the next $2 messages after the mark were old.
-- The mark stops before the first message that is not old yet. Unfinished messages are looked at again later.
with mark as (
    select coalesce((select through from onceward.prune_marks where name = 'messages'), 0) as through
), next_ as materialized (
    select id, status, created_at < onceward.now() - $1::interval as is_old
      from onceward.messages where id > (select through from mark) order by id limit $2
), old as materialized (
    select * from next_ where id < coalesce((select min(id) from next_ where not is_old), 9223372036854775807)
), stripped as (
    update onceward.messages m set data = null, address = null, reason = null, attachments = null
      from old o where m.id = o.id and o.status in ('success', 'cancelled', 'failed')
    returning m.id
), spent as (
    delete from onceward.attempts a using stripped s where a.work_id = s.id
), later as (
    insert into onceward.prune_later (name, id)
    select 'messages', id from old where status not in ('success', 'cancelled', 'failed')
    on conflict do nothing
), moved as (
    insert into onceward.prune_marks (name, through) select 'messages', max(id) from old having max(id) is not null
    on conflict (name) do update set through = excluded.through
)
select count(*) from old
