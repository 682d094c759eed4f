-- Suppressed addresses for the page, newest first; with $1 those that contain it. The address of an erased person is null.
select coalesce(s.address, 'erased ' || left(s.address_hash, 12)) as address, left(s.address_hash, 12) as hash, s.reason, s.status,
       s.source, s.message, s.created_at, o.slug
  from onceward.suppressions s
  left join onceward.organizations o on o.organization_id = s.organization_id
 where $1 = '' or position($1 in s.address) > 0 or s.address_hash = onceward.person_hash($1)
 order by s.created_at desc
 limit $2
