-- Return every queue with its numbers of due, later, running and dead work items. Each number is exact up to $1; where `more`
-- is true, at least one of the numbers is only a lower bound. Reads at most a few times $1 rows per queue, all by index.
with ready as (
    select r.queue from onceward.queues_outside_lanes() r (queue)
), ordered as (
    select o.queue from onceward.queues_in_ordered_lanes() o (queue)
), laned as (
    select l.queue from onceward.queues_in_other_lanes() l (queue)
), in_lanes as materialized (
    select w.queue, w.sort_at, true as ordered from ordered o cross join lateral (
        select w.queue, w.sort_at from onceward.work w
         where w.queue = o.queue and w.lane is not null and w.ordered and w.lease is null and w.dead_reason is null
         order by w.lane, w.id limit $1 + 1) w
    union all
    select w.queue, w.sort_at, false from laned l cross join lateral (
        select w.queue, w.sort_at from onceward.work w
         where w.queue = l.queue and w.lane is not null and w.ordered is not true and w.lease is null
           and w.dead_reason is null
         order by w.lane, w.sort_at, w.id limit $1 + 1) w
), held as materialized (
    -- No index contains running work, because every claim would have to change it: `claims` lists it.
    select c.lease, i.id from onceward.claims c cross join lateral unnest(c.ids) i (id) limit $1 + 1
), dead as materialized (
    select w.queue from onceward.work w where w.dead_reason is not null order by w.dead_at limit $1 + 1
), counted as (
    select r.queue, 'due' as state, c.count, c.oldest
      from ready r cross join lateral (
          select count(*), min(d.sort_at) as oldest from (
              (select w.sort_at from onceward.work w
                where w.queue = r.queue and w.line = 0 and w.lease is null and w.lane is null and w.dead_reason is null
                  and w.sort_at <= onceward.now()
                order by w.sort_at limit $1 + 1)
              union all
              (select w.sort_at from onceward.work w
                where w.queue = r.queue and w.line <> 0 and w.lease is null and w.lane is null and w.dead_reason is null
                  and w.sort_at <= onceward.now()
                order by w.sort_at limit $1 + 1)) d) c
    union all
    select r.queue, 'later', c.count, null
      from ready r cross join lateral (
          select count(*) from (
              (select w.id from onceward.work w
                where w.queue = r.queue and w.line = 0 and w.lease is null and w.lane is null and w.dead_reason is null
                  and w.sort_at > onceward.now()
                order by w.sort_at limit $1 + 1)
              union all
              (select w.id from onceward.work w
                where w.queue = r.queue and w.line <> 0 and w.lease is null and w.lane is null and w.dead_reason is null
                  and w.sort_at > onceward.now()
                order by w.sort_at limit $1 + 1)) d) c
    union all
    select queue, case when sort_at <= onceward.now() then 'due' else 'later' end, count(*), min(sort_at)
      from in_lanes group by 1, 2
    union all
    select w.queue, 'running', count(*), null
      from held join onceward.work w on w.id = held.id and w.lease = held.lease
     group by 1
    union all
    select 'external', 'running', count(*), null
      from (select from onceward.work w where w.queue = 'external' and w.lease is not null
             order by w.claimed_at limit $1 + 1) claimed
    having count(*) > 0
    union all
    select w.queue, 'running', count(*), null
      from (select c.work_id, c.lease from onceward.external_claims c limit $1 + 1) c
      join onceward.work w on w.id = c.work_id and w.lease = c.lease
     group by 1
    union all
    select queue, 'dead', count(*), null from dead group by 1
), depth as (
    select c.queue, least(coalesce(sum(c.count) filter (where c.state = 'due'), 0), $1) as due,
           least(coalesce(sum(c.count) filter (where c.state = 'later'), 0), $1) as later,
           least(coalesce(sum(c.count) filter (where c.state = 'running'), 0), $1) as running,
           least(coalesce(sum(c.count) filter (where c.state = 'dead'), 0), $1) as dead,
           extract(epoch from onceward.now() - min(c.oldest) filter (where c.state = 'due'))::float8 as oldest_due_s
      from counted c group by c.queue
), cut as (
    select queue, sum(count) > $1 as more from counted group by queue, state
    union all
    select queue, count(*) > $1 from in_lanes group by queue, ordered
    union all
    select queue, true from counted
     where (state = 'dead' and (select count(*) from dead) > $1) or (state = 'running' and (select count(*) from held) > $1)
)
select coalesce(d.queue, q.name) as queue, coalesce(d.due, 0)::int as due, coalesce(d.later, 0)::int as later,
       coalesce(d.running, 0)::int as running, coalesce(d.dead, 0)::int as dead, d.oldest_due_s,
       coalesce((select bool_or(c.more) from cut c where c.queue = d.queue), false) as more, q.paused_at, q.paused_by
  from depth d full join onceward.queues q on q.name = d.queue
 order by 1
