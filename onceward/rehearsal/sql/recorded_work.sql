-- Return events and jobs by id, finished or not, with the name of the task that ran them or waits to run them.
select i.id, case when e.seq is not null then 'event' when j.id is not null then 'job' end as kind,
       coalesce(w.task, j.task, last.task) as task,
       array_remove(array[e.route || '/' || e.type,
                          s.app || ':' || e.provider || '/' || e.type, s.name || '/' || e.type, e.provider || '/' || e.type], null)
           as general,
       coalesce(e.organization_id, j.organization_id) as organization_id,
       coalesce(last.number, w.attempts, 0)::int as attempts, w.dead_reason, last.outcome::text as outcome,
       (extract(epoch from last.finished_at - last.started_at) * 1000)::float8 as real_ms,
       j.args, coalesce(e.caused_by, j.caused_by) as caused_by, j.tags, j.context,
       coalesce(e.event_id, j.task) as label
  from unnest($1::bigint[]) with ordinality as i (id, place)
  left join onceward.webhook_events e on e.seq = i.id
  left join onceward.sources s on s.webhook_id = e.webhook_id
  left join onceward.jobs j on j.id = i.id
  left join onceward.work w on w.id = i.id
  left join lateral (
      select a.task, a.number, a.outcome, a.started_at, a.finished_at
        from onceward.attempts a where a.work_id = i.id order by a.finished_at desc limit 1
  ) last on true
 where e.seq is not null or j.id is not null
 order by i.place
