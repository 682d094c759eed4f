-- Delete the opt-out of a recipient, also one that an erasure kept under a hash.
delete from onceward.opt_outs
 where organization_id is not distinct from $1 and channel = $3 and category = $4
   and recipient in ($2, 'erased:' || onceward.person_hash($2))
