-- Return the GRANT statements after which login $1 may act as each of the roles $2, and the current user sees its sessions.
with version as (select current_setting('server_version_num')::int >= 160000 as separate_set)
select format('grant %I to %I%s', role, $1::name, case when separate_set then ' with inherit false, set true' else '' end) as statement
  from version, unnest($2::text[]) as role
 where not coalesce((select pg_has_role(oid, role, case when separate_set then 'set' else 'member' end)
                       from pg_roles where rolname = $1::name), false)
union all
select format('grant %I to %I', $1::name, current_user)
 where $1::name <> current_user
   and not coalesce((select pg_has_role(current_user, oid, 'usage') from pg_roles where rolname = $1::name), false)
