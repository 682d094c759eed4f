-- Return the groups of notices that have waited long enough and were not reported recently. The notices of an organization that has owners
-- are a group of their own; those of organizations without owners share one, apart from the notices of the installation.
with untold as (
    select n.group_key, n.organization_id is not null as of_organization, n.created_at,
           case when exists (select from onceward.memberships m join onceward.users u using (user_id)
                              where m.organization_id = n.organization_id and m.role = 'owner' and u.disabled_at is null)
                then n.organization_id end as reader
      from onceward.notices n where n.told_at is null
)
select group_key, of_organization, reader from untold u
 group by group_key, of_organization, reader
having min(created_at) <= onceward.now() - make_interval(secs => $1)
   and not exists (select from onceward.notices t where t.group_key = u.group_key
                      and t.told_at > onceward.now() - make_interval(secs => $2)
                      and (t.organization_id is not null) = u.of_organization and t.told_to is not distinct from u.reader)
