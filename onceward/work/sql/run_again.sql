-- Let jobs whose arguments were replaced while they ran (ids $1, leases $2) run again after their success; return how many.
select count(*)::int from onceward.work w
 where w.id = any($1::bigint[]) and w.lease = any($2::bigint[])
   and onceward.run_again(w.id, w.lease, $3, 'success', w.claimed_at, $4::jsonb -> w.id::text, null)
