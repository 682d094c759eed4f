-- Return every privilege and policy that our roles have on objects of this database, as statements that create them.
-- Run it with an empty search_path: then all names are qualified.
with role as (
    select oid, rolname from pg_catalog.pg_roles where rolname ~ '^onceward_(engine|app|sql_worker)$'
), schema as (
    select oid, nspname, nspacl from pg_catalog.pg_namespace where nspname !~ '^pg_' and nspname <> 'information_schema'
), privilege as (
    select format('grant %s on schema %I to %I', a.privilege_type, s.nspname, r.rolname) as statement
      from schema s cross join lateral pg_catalog.aclexplode(s.nspacl) a join role r on r.oid = a.grantee
    union all
    select format('grant %s on %s %I.%I to %I', a.privilege_type, case c.relkind when 'S' then 'sequence' else 'table' end,
                  s.nspname, c.relname, r.rolname)
      from pg_catalog.pg_class c join schema s on s.oid = c.relnamespace
      cross join lateral pg_catalog.aclexplode(c.relacl) a join role r on r.oid = a.grantee
    union all
    select format('grant %s (%I) on table %I.%I to %I', a.privilege_type, t.attname, s.nspname, c.relname, r.rolname)
      from pg_catalog.pg_attribute t join pg_catalog.pg_class c on c.oid = t.attrelid join schema s on s.oid = c.relnamespace
      cross join lateral pg_catalog.aclexplode(t.attacl) a join role r on r.oid = a.grantee
     where t.attacl is not null and not t.attisdropped
    union all
    select format('grant execute on routine %s to %I', p.oid::regprocedure, r.rolname)
      from pg_catalog.pg_proc p join schema s on s.oid = p.pronamespace
      cross join lateral pg_catalog.aclexplode(p.proacl) a join role r on r.oid = a.grantee
    union all
    -- A dump grants and revokes in one step: where the roles are missing, everybody keeps the right to execute.
    select format('revoke execute on routine %s from public', p.oid::regprocedure)
      from pg_catalog.pg_proc p join schema s on s.oid = p.pronamespace
     where p.proacl is not null and not exists (select from pg_catalog.aclexplode(p.proacl) a where a.grantee = 0)
)
select statement as key, statement from privilege
union all
-- By name: releases of PostgreSQL may write the same expression in different ways.
select format('policy %I on %I.%I', p.policyname, p.schemaname, p.tablename),
       format('create policy %I on %I.%I as %s for %s to %s%s%s', p.policyname, p.schemaname, p.tablename, p.permissive, p.cmd,
              (select string_agg(case when r = 'public' then r::text else quote_ident(r) end, ', ') from unnest(p.roles) r),
              ' using (' || p.qual || ')', ' with check (' || p.with_check || ')')
  from pg_catalog.pg_policies p join schema s on s.nspname = p.schemaname
union all
select format('row security of %I.%I', s.nspname, c.relname),
       format('alter table %I.%I enable row level security', s.nspname, c.relname)
  from pg_catalog.pg_class c join schema s on s.oid = c.relnamespace where c.relrowsecurity
union all
select format('forced row security of %I.%I', s.nspname, c.relname),
       format('alter table %I.%I force row level security', s.nspname, c.relname)
  from pg_catalog.pg_class c join schema s on s.oid = c.relnamespace where c.relforcerowsecurity
