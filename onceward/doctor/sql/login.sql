-- Return what the login could do to our tables besides what the engine may.
select r.rolname as who, r.rolsuper as superuser, pg_get_userbyid(n.nspowner) as owner, n.oid is not null as migrated,
       coalesce(pg_has_role(r.oid, n.nspowner, 'member'), false) as owns
  from pg_roles r left join pg_namespace n on n.nspname = 'onceward'
 where r.rolname = session_user
