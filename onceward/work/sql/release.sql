-- Hand back, uncounted, what was claimed and not started. What the lease no longer covers is left alone.
update onceward.work
   set lease = null, claimed_at = null, slot = null, parent_slot = null
 where id = any($1::bigint[]) and lease = any($2::bigint[])
returning id, queue
