-- Mark events as done with the result `unhandled` if workers are alive and none of them handles the type. Looks at the next
-- $4 events after the id $3; returns how many it saw, the id of the last one, and the types that it marked, with one source of each.
with seen as materialized (
    select w.id from onceward.work w
     where w.queue = 'unhandled' and w.lease is null and w.dead_reason is null and w.id > $3
       and exists (select from onceward.workers k where k.started_at <= clock_timestamp() - make_interval(secs => $2))
     order by w.id limit $4
), waiting as materialized (
    select w.id, w.organization_id, w.attempts, w.earlier, w.task, s.name as source
      from seen
      join onceward.work w on w.id = seen.id
      join onceward.webhook_events e on e.seq = w.id
      left join onceward.sources s on s.webhook_id = e.webhook_id
     where w.queue = 'unhandled' and w.kind = 'event' and w.lease is null and w.dead_reason is null
       and w.sort_at <= onceward.now() - make_interval(secs => $1)
       and not exists (select from onceward.workers k, unnest(k.tasks) t
                        where t in (w.task, coalesce(e.route, s.name) || '/' || e.type))
       for update of w skip locked
), gone as (
    delete from onceward.work w using waiting where w.id = waiting.id
), recorded as materialized (
    select onceward.record_attempts(array_agg(row(
               id, organization_id, attempts + 1, 'event', task, 'success', null, null, clock_timestamp(), '"unhandled"', null, earlier
           )::onceward.attempt))
      from waiting
), done as (
    select e.provider, e.type, w.source, onceward.settled_event(w.id, 'success', w.attempts + 1, '"unhandled"', null)
      from waiting w join onceward.webhook_events e on e.seq = w.id
), types as (
    select provider, type, min(source) as source from done cross join recorded group by 1, 2
)
select (select count(*) from seen) as seen, (select max(id) from seen) as last, (select count(*) from waiting) as done,
       (select json_agg(types)::jsonb from types) as types
