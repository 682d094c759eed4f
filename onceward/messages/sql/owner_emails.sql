-- Return the addresses of the owners of an organization.
select u.email from onceward.memberships m join onceward.users u using (user_id)
 where m.organization_id = $1 and m.role = 'owner' and u.disabled_at is null order by u.email
