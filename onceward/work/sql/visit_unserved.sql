-- Find due work of any kind that no live worker runs, among the ids above $2 and up to $3, and note its queues and
-- tasks with the reason in onceward.unserved. The patience of $1 seconds counts from the moment at which nobody ran it
-- any more; after it the work becomes dead letters.
-- Work of an unknown task outside lanes is postponed, so that claims of its queue need not pass over it. What is paused
-- is left alone.
with due as materialized (
    select w.id, w.queue, w.task, w.kind
      from onceward.work w
     where w.id > $2 and w.id <= $3 and w.lease is null and w.dead_reason is null
       and w.sort_at <= onceward.now() - interval '5 seconds'
       and not w.queue = any('{external,unhandled}') and not starts_with(w.queue, 'external:')
       and not w.queue = any(array(select q.name from onceward.queues q
                                    where q.paused_at is not null or q.parked_until > clock_timestamp()))
       and (w.source is null or not w.source = any(array(select p.source from onceward.paused_sources p)))
), groups as materialized (
    select d.queue, d.task, min(d.kind) as kind, count(*)::int as waiting,
           case when exists (select from onceward.workers k where d.task = any(k.tasks)) then 'no_queue' else 'no_handler' end as reason
      from due d
     group by d.queue, d.task
    having not exists (select from onceward.workers k where d.task = any(k.tasks) and d.queue = any(k.queues))
), stray as materialized (
    select w.id, g.queue, g.task, g.reason
      from groups g
      join due d on d.queue = g.queue and d.task = g.task
      join onceward.work w on w.id = d.id
     where w.lease is null and w.dead_reason is null
     order by w.id
       for update of w skip locked
), noted as (
    insert into onceward.unserved as u (queue, task, kind, reason, waiting)
    select g.queue, g.task, g.kind, g.reason, g.waiting from groups g
     order by g.queue, g.task, g.reason
    on conflict (queue, task, reason) do update
       set seen_at = onceward.now(), waiting = excluded.waiting,
           since = case when u.seen_at < (select min(k.started_at) from onceward.workers k) - interval '2 minutes'
                        then onceward.now() else u.since end   -- no worker was there to look for it: the patience begins again
    returning u.queue, u.task, u.reason, u.since, u.since = u.seen_at as is_new
), moved as (
    update onceward.work w
       set sort_at = case when n.is_old or s.reason = 'no_queue' or w.lane is not null then w.sort_at
                          else onceward.now() + interval '30 seconds' end,
           dead_reason = case when n.is_old then 'no_handler' end,
           dead_at = case when n.is_old then onceward.now() end
      from stray s
      join (select *, since <= onceward.now() - make_interval(secs => $1) as is_old from noted) n using (queue, task, reason)
     where w.id = s.id
    returning w.id, w.organization_id, w.attempts, w.earlier, w.kind, w.task, w.queue, w.dead_reason, s.reason
), dead as materialized (
    select m.*, jsonb_build_object(
               'type', 'NoHandler', 'reason', 'no_handler', 'message',
               case m.reason when 'no_queue' then 'no running worker serves the queue ' || m.queue
                             else 'no running worker knows the task ' || m.task end) as error
      from moved m where m.dead_reason is not null
), recorded as materialized (
    select onceward.record_attempts(array_agg(row(
               id, organization_id, attempts + 1, kind, task, 'dead_letter', null, null, clock_timestamp(), null, error, earlier
           )::onceward.attempt))
      from dead
), told as materialized (
    select count(onceward.settled(d.kind, d.id, 'dead_letter', d.attempts + 1, null, d.error)) from dead d where d.kind <> 'job'
)
select n.queue, n.task, n.reason, n.is_new,
       (select count(*) from dead d where d.queue = n.queue and d.task = n.task)::int as dead
  from noted n cross join recorded cross join told
 order by n.queue, n.task
