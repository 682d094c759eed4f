-- Delete those of the events $2 that are finished and older than the period in which duplicates are detected ($1). Return the ids of
-- the others: dead letters are never deleted.
with gone as (
    delete from onceward.webhook_events e
     where e.seq = any($2::bigint[]) and e.received_at < onceward.now() - $1::interval and e.status in ('success', 'failed')
    returning e.seq
), spent as (
    delete from onceward.attempts a using gone g where a.work_id = g.seq
)
select e.seq as id from onceward.webhook_events e
 where e.seq = any($2::bigint[]) and not exists (select from gone g where g.seq = e.seq)
