-- Strip the content of finished messages older than $1. Looks at the next $5 messages after $4, or after the mark if $4 is null,
-- and returns how many of them were old, and the last of these. The key stays, so that no message is sent twice.
-- Turn $2 of $3 strips every $3th message. The last turn strips what is left, and moves the mark up to the first message that is
-- not old yet; unfinished messages are looked at again later. A new version of a row stays in its page, and no index changes:
-- see onceward/work/stripping.py.
with passed as (
    select coalesce($4::bigint, (select through from onceward.prune_marks where name = 'messages'), 0) as through
), next_ as materialized (
    select m.id, m.created_at < onceward.now() - $1::interval as is_old,
           m.status in ('success', 'cancelled', 'failed') as is_finished,
           m.data is not null or m.address is not null or m.reason is not null or m.attachments is not null as has_content
      from onceward.messages m where m.id > (select through from passed) order by m.id limit $5
), old as materialized (
    select *, row_number() over (order by id) % $3::int = $2::int as is_in_turn, $2 = $3 - 1 as is_last_turn
      from next_ where id < coalesce((select min(id) from next_ where not is_old), 9223372036854775807)
), ours as materialized (
    select * from old where is_in_turn or is_last_turn
), stripped as (
    update onceward.messages m set data = null, address = null, reason = null, attachments = null
      from ours where m.id = ours.id and ours.is_finished and ours.has_content
), spent as (
    delete from onceward.attempts a using ours where a.work_id = ours.id and ours.is_finished
), later as (
    insert into onceward.prune_later (name, id) select 'messages', id from ours where not is_finished and is_last_turn
    on conflict do nothing
), moved as (
    insert into onceward.prune_marks (name, through)
    select 'messages', max(id) from old where is_last_turn having max(id) is not null
    on conflict (name) do update set through = greatest(prune_marks.through, excluded.through)
)
select count(*)::int as looked, max(id) as last from old
