-- Return the user of a valid session, with all memberships.
select u.user_id, u.email, u.name, u.admin,
       array(select m.organization_id from onceward.memberships m where m.user_id = u.user_id
             order by m.organization_id) as organizations,
       array(select m.role from onceward.memberships m where m.user_id = u.user_id
             order by m.organization_id) as roles
from onceward.sessions s join onceward.users u using (user_id)
where s.hash = $1 and s.expires_at > onceward.now() and u.disabled_at is null
