-- Mark the notices of a group as part of the report $2. The readers are the owners of the organization $4, or the installation.
update onceward.notices n set told_at = onceward.now(), told_in = $2, told_to = $4
 where n.group_key = $1 and n.told_at is null and (n.organization_id is not null) = $3
   and case when $4::uuid is not null then n.organization_id = $4
            else not exists (select from onceward.memberships m join onceward.users u using (user_id)
                              where m.organization_id = n.organization_id and m.role = 'owner' and u.disabled_at is null)
       end
