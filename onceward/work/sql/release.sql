-- Release claimed work without counting an attempt. Rows that have lost this lease stay unchanged.
update onceward.work
   set lease = null, claimed_at = null, slot = null, parent_slot = null
 where id = any($1::bigint[]) and lease = any($2::bigint[])
returning id, queue
