-- Find logins of one organization that have other rights, too.
select l.login, r.rolname as role
  from onceward.sql_logins l
  join pg_roles h on h.rolname = l.login
  join pg_roles r on r.oid <> h.oid and r.rolname not in ('onceward_organization_worker', 'onceward_producer')
                 and pg_has_role(h.oid, r.oid, 'member')
 order by l.login, r.rolname
