-- Strip the bodies of events that were unfinished or dead letters when the mark passed them, and have ended since. At most $1.
with ended as materialized (
    select p.id from onceward.prune_later p join onceward.webhook_events e on e.seq = p.id
     where p.name = 'events' and e.status in ('success', 'failed') limit $1
), stripped as (
    update onceward.webhook_events e set payload = null, raw = null, headers = null, signature = null, settles = settles + 1
      from ended where e.seq = ended.id
), spent as (
    delete from onceward.attempts a using ended where a.work_id = ended.id
), forgotten as (
    delete from onceward.prune_later p using ended where p.name = 'events' and p.id = ended.id
)
select (select count(*) from ended)::int
