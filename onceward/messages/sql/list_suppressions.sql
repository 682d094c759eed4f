-- Return suppressed addresses of an organization, or of all, newest first. The address of an erased person is null. $2: only those of
-- the installation itself.
select s.organization_id, s.address, left(s.address_hash, 12) as hash, s.reason, s.status, s.source, s.message, s.created_at
  from onceward.suppressions s
 where ($1::uuid is null or s.organization_id = $1)
   and (not $2::boolean or s.organization_id is null)
   and ($3::timestamptz is null or s.created_at < $3)
 order by s.created_at desc
 limit $4
