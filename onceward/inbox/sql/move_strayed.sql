-- Move events whose handler was removed by a deploy to the queue `unhandled`, so that they follow the same rules as new
-- events. Looks at the ids above $2 and up to $3.
with alive as materialized (
    select distinct t from onceward.workers w, unnest(w.tasks) t where 'events' = any(w.queues)
), stray as materialized (
    select w.id from onceward.work w
     where w.id > $2 and w.id <= $3 and w.queue = 'events' and w.kind = 'event' and w.lease is null and w.dead_reason is null
       and w.sort_at <= onceward.now() - make_interval(secs => $1)
       and exists (select from alive) and not exists (select from alive a where a.t = w.task)
     order by w.id
       for update of w skip locked
)
update onceward.work w set queue = 'unhandled' from stray where w.id = stray.id
returning w.id
