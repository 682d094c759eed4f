-- Delete the content of old finished messages. The scan starts after the last id of the previous run, so that no row is
-- scanned twice.
with mark as (
    select coalesce((select through from onceward.prune_marks where name = 'messages'), 0) as through
), window_ as (
    select id, created_at, status from onceward.messages where id > (select through from mark) order by id limit $2
), old as (
    select id, status from window_ where created_at < onceward.now() - $1::interval
), stripped as (
    update onceward.messages m set data = null, address = null, reason = null, attachments = null
      from old o where m.id = o.id and o.status in ('success', 'cancelled', 'failed')
    returning m.id
), spent as (
    delete from onceward.attempts a using stripped s where a.work_id = s.id
), moved as (
    insert into onceward.prune_marks (name, through) select 'messages', max(id) from old having max(id) is not null
    on conflict (name) do update set through = excluded.through
)
select count(*) from old
