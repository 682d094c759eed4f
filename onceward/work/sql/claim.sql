-- Claim due work of one queue: at most $4 rows from the watermark $2 on. Skips rows that another worker is claiming.
with due as materialized (
    select ctid
      from onceward.work
     where queue = $1 and sort_at >= $2 and sort_at <= onceward.now()
       and lease is null and lane is null and dead_reason is null
       and crashes < 2 and task = any($3::text[])
       and not exists (select from onceward.queues q
                        where q.name = $1 and (q.paused_at is not null or q.parked_until > clock_timestamp()))
     order by sort_at
     limit $4
       for update skip locked
), held as (
    update onceward.work
       set lease = $5, claimed_at = clock_timestamp()
     where ctid = any(array(select ctid from due))
    returning id, kind, task, organization_id, attempts, crashes, max_attempts, bundle, lane, sort_at
), noted as (
    insert into onceward.claims (lease, worker, ids)
    select $5, $6, array_agg(id) from held having count(*) > 0
)
select h.id, h.kind, h.task, h.organization_id, h.attempts, h.crashes, h.max_attempts, h.bundle, h.lane,
       j.args, j.caused_by, j.tags, j.context, h.sort_at
  from held h
  left join onceward.jobs j on j.id = h.id
