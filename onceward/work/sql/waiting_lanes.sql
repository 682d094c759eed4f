-- Return the lanes among those of the queues $2 and the names $3 in which work has been due for longer than $1 seconds
-- and is not paused. Each with its first waiting work, and what is in the way: the work that holds a slot of the lane,
-- an earlier work that is not due yet, or the breaker.
select l.queue, l.lane, d.kind, d.task, d.id as first_id, d.sort_at as due_at, h.sort_at > onceward.now() as waits_for_first,
       h.id as head_id, s.id as held_id, extract(epoch from clock_timestamp() - s.claimed_at)::float8 as held_s,
       coalesce(c.open_until > clock_timestamp(), false) as broken, coalesce(c.next_at > clock_timestamp(), false) as paced
  from unnest($2::text[], $3::text[]) l (queue, lane)
 cross join lateral (
    (select w.id, w.kind, w.task, w.sort_at, w.source, true as ordered from onceward.work w
      where w.queue = l.queue and w.lane = l.lane and w.ordered and w.lease is null and w.dead_reason is null
      order by w.id limit 1)
    union all
    (select w.id, w.kind, w.task, w.sort_at, w.source, false from onceward.work w
      where w.queue = l.queue and w.lane = l.lane and w.ordered is not true and w.lease is null and w.dead_reason is null
      order by w.sort_at, w.id limit 1)) h
 cross join lateral (
    select f.id, f.kind, f.task, f.sort_at
      from (select w.id, w.kind, w.task, w.sort_at from onceward.work w
             where h.ordered and w.queue = l.queue and w.lane = l.lane and w.ordered and w.lease is null and w.dead_reason is null
             order by w.id limit 5) f
     where f.sort_at <= onceward.now() - make_interval(secs => $1)
    union all
    select h.id, h.kind, h.task, h.sort_at where not h.ordered and h.sort_at <= onceward.now() - make_interval(secs => $1)
     order by 1 limit 1) d
  left join lateral (
    select w.id, w.claimed_at from onceward.work w
     where w.queue = l.queue and w.lane = l.lane and w.slot is not null order by w.claimed_at limit 1) s on true
  left join onceward.lanes c on c.queue = l.queue and c.lane = l.lane
 where c.paused_at is null
   and (h.source is null or not h.source = any(array(select p.source from onceward.paused_sources p)))
   and not exists (select from onceward.queues q
                    where q.name = l.queue and (q.paused_at is not null or q.parked_until > clock_timestamp()))
