-- Suppressed addresses for the page, newest first; with $1 the one with this address or hash, and of the newest $4 those that contain it.
-- The address of an erased person is null.
select coalesce(s.address, 'erased ' || left(s.address_hash, 12)) as address, left(s.address_hash, 12) as hash, s.reason, s.status,
       s.source, s.message, s.created_at, o.slug
  from (select * from (
            (select l.* from onceward.suppressions l
              where ($3::uuid is null or l.organization_id = $3) order by l.created_at desc limit $4)
        ) newest
         where $1 = '' or position($1 in newest.address) > 0
        union
        select named.* from onceward.suppressions named
         where $1 <> '' and (named.address = $1 or named.address_hash = onceward.person_hash($1))
           and ($3::uuid is null or named.organization_id = $3)) s
  left join onceward.organizations o on o.organization_id = s.organization_id
 order by s.created_at desc
 limit $2
