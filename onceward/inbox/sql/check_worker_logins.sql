-- Find workers of one organization whose login has other rights, too.
select l.login, r.rolname as role
  from onceward.worker_logins l
  join pg_roles h on h.rolname = l.login
  join pg_roles r on r.oid <> h.oid and r.rolname <> 'onceward_organization_worker' and pg_has_role(h.oid, r.oid, 'member')
 order by l.login, r.rolname
