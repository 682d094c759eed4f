-- Release rows whose lease is older than $1 seconds and has no row in claims, among the ids above $2 and up to $3. One node
-- at a time.
update onceward.work w
   set lease = null, claimed_at = null, slot = null, parent_slot = null
 where w.id > $2 and w.id <= $3 and w.lease is not null and w.queue <> 'external'
   and not starts_with(w.queue, 'external:')
     and w.claimed_at < clock_timestamp() - make_interval(secs => $1)
   and not exists (select from onceward.claims c where c.lease = w.lease)
   and pg_try_advisory_xact_lock(727274)
returning w.id
