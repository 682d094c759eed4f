-- Claim due work of one queue: at most $4 rows. First from the lines $8 in their order, at most $10 rows of each from its
-- watermark $9 on; then the oldest rows of all organizations from the watermark $2 on (null: none). onceward/work/lines.py chooses.
-- Skips rows that another worker is claiming, and everything that is paused: the queue, or the source of an event.
-- With $7 and a suspect, which two dead workers held, it claims that alone (onceward/work/suspects.py): if this worker dies too, it is
-- the cause.
-- The column `lanes` says whether work waits in lanes, which onceward.claim_lanes claims.
with queue as materialized (
    select not exists (select from onceward.queues q
                        where q.name = $1 and (q.paused_at is not null or q.parked_until > clock_timestamp())) as is_open
), suspect as materialized (
    select ctid
      from onceward.work
     where $7::boolean and queue = $1 and sort_at <= onceward.now()
       and lease is null and lane is null and dead_reason is null
       and crashes > 1 and task = any($3::text[])
       and (select is_open from queue)
       and (source is null or not source = any(array(select p.source from onceward.paused_sources p)))
     order by sort_at
     limit 1
       for update skip locked
), lines as materialized (
    select w.ctid
      from unnest($8::bigint[], $9::timestamptz[], $10::int[]) l (line, mark, take)
     cross join lateral (
        select ctid
          from onceward.work
         where not exists (select from suspect) and queue = $1 and line = l.line and sort_at >= l.mark and sort_at <= onceward.now()
           and lease is null and lane is null and dead_reason is null
           and crashes < 2 and task = any($3::text[])
           and (select is_open from queue)
           and (source is null or not source = any(array(select p.source from onceward.paused_sources p)))
         order by sort_at
         limit l.take
           for update skip locked) w
     limit $4
), oldest as materialized (
    select ctid
      from onceward.work
     where not exists (select from suspect) and queue = $1 and line <> 0 and sort_at >= $2 and sort_at <= onceward.now()
       and lease is null and lane is null and dead_reason is null
       and crashes < 2 and task = any($3::text[])
       and (select is_open from queue)
       and (source is null or not source = any(array(select p.source from onceward.paused_sources p)))
     order by sort_at
     limit $4 - (select count(*) from lines)
       for update skip locked
), held as (
    update onceward.work
       set lease = $5, claimed_at = clock_timestamp()
     where ctid = any(array(select ctid from suspect union all select ctid from lines union all select ctid from oldest))
    returning id, kind, task, organization_id, attempts, crashes, max_attempts, bundle, lane, sort_at, line
), noted as (
    insert into onceward.claims (lease, worker, ids)
    select $5, $6, array_agg(id) from held having count(*) > 0
)
select h.id, h.kind, h.task, h.organization_id, h.attempts, h.crashes, h.max_attempts, h.bundle, h.lane,
       j.args, j.caused_by, j.tags, j.context, h.sort_at, h.line,
       (select exists (select from onceward.work l
                        where l.queue = $1 and l.lane is not null and l.ordered and l.lease is null and l.dead_reason is null)
            or exists (select from onceward.work l
                        where l.queue = $1 and l.lane is not null and l.ordered is not true and l.lease is null
                          and l.dead_reason is null)) as lanes
  from held h
  left join onceward.jobs j on j.id = h.id
