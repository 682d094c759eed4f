-- Move events whose type had no handler on arrival to the queue `events`, once a live worker handles the type. Looks at the
-- next $2 events after the id $1; returns how many it saw, the id of the last one, and how many it moved.
with alive as materialized (
    select distinct t from onceward.workers w, unnest(w.tasks) t
), seen as materialized (
    select w.id from onceward.work w
     where w.queue = 'unhandled' and w.lease is null and w.dead_reason is null and w.id > $1 and exists (select from alive)
     order by w.id limit $2
), waiting as materialized (
    -- A handler of the event's route takes precedence over the handler of the provider, which is that of the source's app.
    select w.id, coalesce(own.t, general.t) as t
      from seen
      join onceward.work w on w.id = seen.id
      join onceward.webhook_events e on e.seq = w.id
      left join onceward.sources s on s.webhook_id = e.webhook_id
      left join alive own on own.t = coalesce(e.route, s.name) || '/' || e.type
      left join alive general on general.t = coalesce(s.app || ':', '') || e.provider || '/' || e.type
     where w.queue = 'unhandled' and w.lease is null and w.dead_reason is null and coalesce(own.t, general.t) is not null
       for update of w skip locked
), moved as (
    update onceward.work w set queue = 'events', task = waiting.t, sort_at = least(w.sort_at, onceward.now())
      from waiting where w.id = waiting.id
    returning w.id
)
select (select count(*) from seen) as seen, (select max(id) from seen) as last, (select count(*) from moved) as done
