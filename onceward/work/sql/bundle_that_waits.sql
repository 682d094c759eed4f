-- Lock the bundle that the unfinished job of organization $1 with the unique key $2 waits for, and return it.
select b.id, b.then_id
  from onceward.work w
  join onceward.bundles b on b.then_id = w.id
 where coalesce(w.organization_id, '00000000-0000-0000-0000-000000000000'::uuid)
       = coalesce($1::uuid, '00000000-0000-0000-0000-000000000000'::uuid)
   and w.unique_key = $2 and w.dead_reason is null
   for update of b
