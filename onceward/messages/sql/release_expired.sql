-- Let a worker end the waiting messages whose time has passed, whatever their line waits for. At most $1, the oldest first.
with expired as materialized (
    select m.id from onceward.messages m
     where m.expires_at <= onceward.now() and m.status in ('pending', 'processing')
     order by m.expires_at limit $1
)
update onceward.work w set queue = 'message.expired', lane = null, cap = null, slot = null, sort_at = onceward.now()
  from expired e
 where w.id = e.id and w.lease is null and w.dead_reason is null and w.queue <> 'message.expired'
returning w.id
