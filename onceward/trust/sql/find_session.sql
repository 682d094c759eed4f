-- Return the user of a valid session, with all memberships, and what the session has proven.
select u.user_id, u.email, u.name, u.admin, s.session_id, s.method,
       extract(epoch from onceward.now() - s.confirmed_at)::float8 as confirmed_s_ago,
       s.last_seen_at < onceward.now() - interval '1 minute' as touch,
       s.second_factor_at is not null as has_second_factor,
       -- An administrator reads the rows of every organization, so the requirement of one applies to all of them.
       s.second_factor_required or u.admin and exists (
           select from onceward.organizations o where o.second_factor_required) as required_everywhere,
       exists (select from onceward.second_factors f
               where f.user_id = u.user_id and f.confirmed_at is not null) as enrolled,
       m.organizations, m.roles, m.desk_roles, m.requiring
from onceward.sessions s join onceward.users u using (user_id),
lateral (select coalesce(array_agg(m.organization_id), '{}') as organizations, coalesce(array_agg(m.role), '{}') as roles,
                coalesce(array_agg(array_to_string(m.desk_roles, ' ')), '{}') as desk_roles,
                coalesce(array_agg(m.organization_id) filter (where o.second_factor_required), '{}') as requiring
         from onceward.memberships m join onceward.organizations o using (organization_id)
         where m.user_id = u.user_id) m
where s.hash = $1 and s.expires_at > onceward.now() and (s.idle is null or s.last_seen_at + s.idle > onceward.now())
  and u.disabled_at is null
