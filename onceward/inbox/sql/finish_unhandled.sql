-- Mark events as done with the result `unhandled` if workers are alive and none of them handles the type.
with waiting as materialized (
    select w.id, w.organization_id, w.attempts, w.task
      from onceward.work w
      join onceward.webhook_events e on e.seq = w.id
      left join onceward.sources s on s.webhook_id = e.webhook_id
     where w.queue = 'unhandled' and w.kind = 'event' and w.lease is null and w.dead_reason is null
       and w.sort_at <= onceward.now() - make_interval(secs => $1)
       and exists (select from onceward.workers k where not k.stopping
                      and k.started_at <= clock_timestamp() - make_interval(secs => $2))
       and not exists (select from onceward.workers k, unnest(k.tasks) t
                        where t in (w.task, coalesce(e.route, s.name) || '/' || e.type))
     order by w.sort_at limit 500
       for update of w skip locked
), gone as (
    delete from onceward.work w using waiting where w.id = waiting.id
), recorded as materialized (
    select onceward.record_attempts(array_agg(row(
               id, organization_id, attempts + 1, 'event', task, 'success', null, null, clock_timestamp(), '"unhandled"', null
           )::onceward.attempts))
      from waiting
), done as (
    select e.provider, e.type, onceward.settled_event(w.id, 'success', w.attempts + 1, '"unhandled"', null)
      from waiting w join onceward.webhook_events e on e.seq = w.id
)
select provider, type, count(*) from done cross join recorded group by 1, 2
