-- Look at the next $4 events after the id $3 whose type nobody handled when they arrived.
-- If a live worker handles the type now, move the event to the queue `events`. If after $1 seconds a worker that has
-- run for as long could know the type, and does not, mark the event as done with the result `unhandled`: a worker of
-- the source's app, or any worker if the source names no app and no app that ran here before is away. Otherwise the
-- event waits and is noted in onceward.unserved; after $2 seconds it becomes a dead letter. Events of paused sources wait.
-- Returns how many it saw, the id of the last one, how many it moved and ended, the unhandled types with one source of
-- each, and what is new in unserved.
with alive as materialized (
    select distinct t from onceward.workers w, unnest(w.tasks) t
), away as materialized (
    select a.name from onceward.apps a where not exists (select from onceward.workers w where a.name = any(w.apps)) limit 1
), running as materialized (
    select w.apps, w.started_at <= clock_timestamp() - make_interval(secs => $1) as is_patient from onceward.workers w
     where w.queues <> '{}'                -- not a run in the foreground
), seen as materialized (
    select w.id from onceward.work w
     where w.queue = 'unhandled' and w.lease is null and w.dead_reason is null and w.id > $3
     order by w.id limit $4
), waiting as materialized (
    -- A handler of the event's route takes precedence over the handler of the provider, which is that of the source's app.
    select w.id, w.organization_id, w.attempts, w.earlier, w.task, s.name as source, e.provider, e.type,
           coalesce(own.t, general.t) as handler,
           exists (select from running)
               and case when s.app is null then exists (select from away)
                        else not exists (select from running r where s.app = any(r.apps)) end as is_away,
           case when s.app is null then exists (select from running r where r.is_patient) and not exists (select from away)
                else exists (select from running r where r.is_patient and s.app = any(r.apps)) end as is_unknown
      from seen
      join onceward.work w on w.id = seen.id
      join onceward.webhook_events e on e.seq = w.id
      left join onceward.sources s on s.webhook_id = e.webhook_id
      left join alive own on own.t = coalesce(e.route, s.name) || '/' || e.type
      left join alive general on general.t = coalesce(s.app || ':', '') || e.provider || '/' || e.type
     where w.queue = 'unhandled' and w.kind = 'event' and w.lease is null and w.dead_reason is null and s.paused_at is null
       and (coalesce(own.t, general.t) is not null or w.sort_at <= onceward.now() - make_interval(secs => $1))
       for update of w skip locked
), moved as (
    update onceward.work w set queue = 'events', task = waiting.handler, sort_at = least(w.sort_at, onceward.now())
      from waiting where w.id = waiting.id and waiting.handler is not null
    returning w.id
), unhandled as materialized (
    select * from waiting where handler is null and is_unknown
), gone as (
    delete from onceward.work w using unhandled u where w.id = u.id
), done as materialized (
    select u.provider, u.type, u.source, onceward.settled_event(u.id, 'success', u.attempts + 1, '"unhandled"', null) from unhandled u
), noted as (
    insert into onceward.unserved as n (queue, task, kind, reason, waiting)
    select 'unhandled', task, 'event', 'no_app', count(*)::int from waiting where handler is null and is_away
     group by task order by task
    on conflict (queue, task, reason) do update
       set seen_at = onceward.now(), waiting = excluded.waiting,
           since = case when n.seen_at < (select min(k.started_at) from onceward.workers k) - interval '2 minutes'
                        then onceward.now() else n.since end
    returning n.task, n.since, n.since = n.seen_at as is_new
), dead as (
    update onceward.work w set dead_reason = 'no_handler', dead_at = onceward.now()
      from waiting x join noted n using (task)
     where w.id = x.id and x.handler is null and x.is_away and n.since <= onceward.now() - make_interval(secs => $2)
    returning w.id, w.organization_id, w.attempts, w.earlier, w.task
), buried as materialized (
    select count(onceward.settled_event(d.id, 'dead_letter', d.attempts + 1, null, x.error)) as count
      from dead d cross join (select jsonb_build_object(
               'type', 'NoHandler', 'reason', 'no_handler', 'message', 'no worker of the app that handles this source runs') as error) x
), recorded as materialized (
    select onceward.record_attempts(array_agg(a)) from (
        select row(id, organization_id, attempts + 1, 'event', task, 'success', null, null, clock_timestamp(), '"unhandled"', null,
                   earlier)::onceward.attempt as a from unhandled
        union all
        select row(id, organization_id, attempts + 1, 'event', task, 'dead_letter', null, null, clock_timestamp(), null,
                   '{"type": "NoHandler", "reason": "no_handler", "message": "no worker of the app that handles this source runs"}',
                   earlier)::onceward.attempt from dead) ended
), types as (
    select provider, type, min(source) as source from done group by 1, 2
)
select (select count(*) from seen) as seen, (select max(id) from seen) as last, (select count(*) from moved) as moved,
       (select count(*) from unhandled) as unhandled, (select count from buried) as dead,
       (select json_agg(types)::jsonb from types) as types,
       (select array_agg(task order by task) from noted where is_new) as new_tasks
  from recorded
