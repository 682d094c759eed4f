-- List the organizations with the number of their members and owners, and whether they require a second factor.
select o.slug, o.name, o.second_factor_required, count(m.user_id)::int as members,
       (count(*) filter (where m.role = 'owner'))::int as owners
  from onceward.organizations o left join onceward.memberships m using (organization_id)
 group by o.organization_id order by o.name limit 1000
