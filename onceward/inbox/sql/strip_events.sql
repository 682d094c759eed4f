-- Strip the bodies of finished events older than $1, and return how many of the next $3 events after the mark were old.
-- The event id stays, to detect duplicates. The mark stops before the first event that is not old yet.
-- Sources with the same retention share a mark: $2 is their number of days, null for those that use the setting.
with mark as (
    select 'events:' || coalesce($2::int::text, 'default') as name
), passed as (
    select coalesce((select p.through from onceward.prune_marks p join mark using (name)), 0) as through
), next_ as materialized (
    select e.seq, e.webhook_id, e.status, e.received_at < onceward.now() - $1::interval as is_old
      from onceward.webhook_events e where e.seq > (select through from passed) order by e.seq limit $3
), old as materialized (
    select * from next_ where seq < coalesce((select min(seq) from next_ where not is_old), 9223372036854775807)
), ours as materialized (
    select o.seq, o.status from old o left join onceward.sources s on s.webhook_id = o.webhook_id
     where s.retention_days is not distinct from $2
), stripped as (
    update onceward.webhook_events e set payload = null, raw = null, headers = null, signature = null, settles = settles + 1
      from ours where e.seq = ours.seq and ours.status in ('success', 'failed')
    returning e.seq
), spent as (
    delete from onceward.attempts a using stripped where a.work_id = stripped.seq
), later as (
    insert into onceward.prune_later (name, id)
    select 'events', seq from ours where status not in ('success', 'failed')
    on conflict do nothing
), moved as (
    insert into onceward.prune_marks (name, through)
    select (select name from mark), max(seq) from old having max(seq) is not null
    on conflict (name) do update set through = excluded.through
)
select (select count(*) from old)::int
