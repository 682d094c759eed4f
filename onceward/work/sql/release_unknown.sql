-- Release the rows of leases that this worker does not know. Rows that have another lease stay unchanged.
with lost as (
    delete from onceward.claims where worker = $1 and lease = any($2::bigint[]) returning lease, ids
)
update onceward.work w
   set lease = null, claimed_at = null, slot = null, parent_slot = null
  from lost
 where w.id = any(lost.ids) and w.lease = lost.lease
returning w.id
