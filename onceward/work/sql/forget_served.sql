-- Forget what is run again: a live worker knows the task and serves the queue, or nobody has found such work for two minutes although
-- every round of the walk that began at $1 looked for it.
delete from onceward.unserved u
 where (u.reason in ('no_handler', 'no_queue')
        and exists (select from onceward.workers k where u.task = any(k.tasks) and u.queue = any(k.queues)))
    or u.seen_at < $1::timestamptz - interval '2 minutes'
