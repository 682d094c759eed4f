-- Return how many seconds the oldest due work of the queues that run has waited for a worker.
select extract(epoch from onceward.now() - min(w.sort_at))::float8
  from onceward.work w
 where w.lease is null and w.dead_reason is null and w.sort_at <= onceward.now()
   and w.queue not in ('external', 'unhandled') and not starts_with(w.queue, 'external:')
   and not exists (select from onceward.queues q where q.name = w.queue and q.paused_at is not null)
