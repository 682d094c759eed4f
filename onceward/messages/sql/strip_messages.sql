-- Strip the content of those of the messages $2 that are older than $1 and finished, and delete their attempts. The key stays, so that
-- no message is sent twice. Return the ids of the others: unfinished, dead letters, or locked because somebody sends them again.
-- A new version of a row stays in its page, and no index changes: see onceward/work/retention.py.
with due as materialized (
    select m.id, m.data is not null or m.address is not null or m.reason is not null or m.attachments is not null as has_content
      from onceward.messages m
     where m.id = any($2::bigint[]) and m.created_at < onceward.now() - $1::interval
       and m.status in ('success', 'cancelled', 'expired', 'failed')
     order by m.id for update skip locked
), stripped as (
    update onceward.messages m set data = null, address = null, reason = null, attachments = null
      from due where m.id = due.id and due.has_content
), spent as (
    delete from onceward.attempts a using due where a.work_id = due.id
)
select m.id from onceward.messages m where m.id = any($2::bigint[]) and not exists (select from due where due.id = m.id)
