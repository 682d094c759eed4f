-- Strip the bodies of those of the events $2 that are finished and older than the retention of their source, or than $1 if it has
-- none, and delete their attempts. The event id stays, to detect duplicates. Return the ids of the others: unfinished, dead letters,
-- not old enough, or locked because somebody replays them.
-- A new version of a row stays in its page, and no index changes: see onceward/work/retention.py.
with due as materialized (
    select e.seq, e.payload is not null or e.raw is not null or e.headers is not null or e.signature is not null as has_body
      from onceward.webhook_events e
     where e.seq = any($2::bigint[]) and e.status in ('success', 'failed')
       and e.received_at < onceward.now() - coalesce(
               (select make_interval(days => s.retention_days) from onceward.sources s where s.webhook_id = e.webhook_id), $1::interval)
     order by e.seq for update skip locked
), stripped as (
    update onceward.webhook_events e set payload = null, raw = null, headers = null, signature = null, settles = settles + 1
      from due where e.seq = due.seq and due.has_body
), spent as (
    delete from onceward.attempts a using due where a.work_id = due.seq
)
select e.seq as id from onceward.webhook_events e
 where e.seq = any($2::bigint[]) and not exists (select from due where due.seq = e.seq)
