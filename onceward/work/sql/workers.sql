-- Return the registered workers with the number of work items that each has claimed.
select w.id, w.name, w.version, w.queues, cardinality(w.tasks) as tasks, w.started_at, w.beat, w.beat_at,
       coalesce((select sum(cardinality(c.ids)) from onceward.claims c where c.worker = w.id), 0)::int as claimed
  from onceward.workers w order by w.started_at
