-- Put the messages that wait for a digest into it, and return them. A digest that was closed before keeps what it has; messages that
-- were cancelled or have expired since are left out.
update onceward.digest_entries e set is_included = true
  from onceward.messages m join onceward.work w on w.id = m.id
 where e.digest = $1 and m.id = e.message and m.status = 'pending' and not coalesce(w.cancel, false) and w.dead_reason is null
   and (m.expires_at is null or m.expires_at > onceward.now())
   and (e.is_included or not (select d.data ? 'closed' from onceward.messages d where d.id = $1))
returning e.message
