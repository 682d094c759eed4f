-- Return suppressed addresses, newest first. The address of an erased person is null.
select s.organization_id, s.address, left(s.address_hash, 12) as hash, s.reason, s.status, s.source, s.message, s.created_at
  from onceward.suppressions s
 where ($2::boolean or s.organization_id is not distinct from $1)
   and ($3::timestamptz is null or s.created_at < $3)
 order by s.created_at desc
 limit $4
