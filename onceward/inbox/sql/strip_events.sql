-- Strip the bodies of finished events older than $1. Looks at the next $6 events after $5, or after the mark if $5 is null, and
-- returns how many of them were old, and the last of these. The event id stays, to detect duplicates.
-- Sources with the same retention share a mark: $2 is their number of days, null for those that use the setting.
-- Turn $3 of $4 strips every $4th event. The last turn strips what is left, and moves the mark up to the first event that is not
-- old yet. Each page of the table has room for that many new versions, and a later turn finds the room of the old versions free.
-- So a new version stays in its page, and no index changes, which would cost a random page of a large index for each event.
with mark as (
    select 'events:' || coalesce($2::int::text, 'default') as name
), passed as (
    select coalesce($5::bigint, (select p.through from onceward.prune_marks p join mark using (name)), 0) as through
), next_ as materialized (
    select e.seq, e.webhook_id, e.status, e.received_at < onceward.now() - $1::interval as is_old,
           e.payload is not null or e.raw is not null or e.headers is not null or e.signature is not null as has_body
      from onceward.webhook_events e where e.seq > (select through from passed) order by e.seq limit $6
), old as materialized (
    select *, row_number() over (order by seq) % $4::int = $3::int as is_in_turn, $3 = $4 - 1 as is_last_turn
      from next_ where seq < coalesce((select min(seq) from next_ where not is_old), 9223372036854775807)
), ours as materialized (
    select o.* from old o left join onceward.sources s on s.webhook_id = o.webhook_id
     where s.retention_days is not distinct from $2 and (o.is_in_turn or o.is_last_turn)
), stripped as (
    update onceward.webhook_events e set payload = null, raw = null, headers = null, signature = null, settles = settles + 1
      from ours where e.seq = ours.seq and ours.status in ('success', 'failed') and ours.has_body
), spent as (
    delete from onceward.attempts a using ours where a.work_id = ours.seq and ours.status in ('success', 'failed')
), later as (
    insert into onceward.prune_later (name, id)
    select 'events', seq from ours where status not in ('success', 'failed') and is_last_turn
    on conflict do nothing
), moved as (
    insert into onceward.prune_marks (name, through)
    select (select name from mark), max(seq) from old where is_last_turn having max(seq) is not null
    on conflict (name) do update set through = greatest(prune_marks.through, excluded.through)
)
select count(*)::int as looked, max(seq) as last from old
