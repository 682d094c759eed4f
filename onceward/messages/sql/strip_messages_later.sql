-- Delete the content of messages that were unfinished when the mark passed them, and have ended since. At most $1.
with ended as materialized (
    select p.id from onceward.prune_later p join onceward.messages m using (id)
     where p.name = 'messages' and m.status in ('success', 'cancelled', 'failed') limit $1
), stripped as (
    update onceward.messages m set data = null, address = null, reason = null, attachments = null
      from ended e where m.id = e.id
), spent as (
    delete from onceward.attempts a using ended e where a.work_id = e.id
), forgotten as (
    delete from onceward.prune_later p using ended e where p.name = 'messages' and p.id = e.id
)
select count(*) from ended
