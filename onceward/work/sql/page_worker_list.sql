-- Return the workers with the number of items that each holds.
select w.id, w.name, w.version, w.queues, w.tasks, w.started_at, w.beat_at,
       w.beat_at < clock_timestamp() - interval '15 seconds' as silent,
       coalesce((select sum(cardinality(c.ids)) from onceward.claims c where c.worker = w.id), 0)::int as claimed
  from onceward.workers w order by w.started_at limit 500
