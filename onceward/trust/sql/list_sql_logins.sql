-- Return the logins of organizations with what they may do.
select l.login, l.organization_id, o.slug as organization,
       array(select r.may from (values ('work', 'onceward_organization_worker'), ('produce', 'onceward_producer')) r (may, role)
              where pg_has_role(l.login, r.role, 'member')) as may,
       l.created_at
  from onceward.sql_logins l
  join pg_roles p on p.rolname = l.login
  left join onceward.organizations o using (organization_id)
 order by l.login
