-- Find rights with which a handler's role could get around row-level security.
with handlers as (
    -- The roles of handlers and of programs in other languages. None of them may be a member of another role.
    select oid, rolname, rolsuper, rolbypassrls, rolcreaterole, rolcreatedb from pg_roles
     where rolname in ('onceward_app', 'onceward_sql_worker', 'onceward_organization_worker', 'onceward_producer')
), tenant_tables as (
    select c.oid, c.relowner from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where c.relkind in ('r', 'p', 'v') and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
)
select h.rolname as role,
       case when h.rolsuper then 'is a superuser' when h.rolbypassrls then 'has BYPASSRLS'
            when h.rolcreaterole then 'may create roles' else 'may create databases' end as problem
  from handlers h where h.rolsuper or h.rolbypassrls or h.rolcreaterole or h.rolcreatedb
union all
select h.rolname, 'is a member of ' || r.rolname
  from handlers h join pg_roles r on r.oid <> h.oid and pg_has_role(h.oid, r.oid, 'member')
union all
select h.rolname, 'owns ' || c.oid::regclass from handlers h join tenant_tables c on c.relowner = h.oid
union all
select h.rolname, 'may truncate ' || c.oid::regclass
  from handlers h join tenant_tables c on has_table_privilege(h.oid, c.oid, 'truncate')
union all
select h.rolname, 'may create triggers on ' || c.oid::regclass
  from handlers h join tenant_tables c on has_table_privilege(h.oid, c.oid, 'trigger')
union all
select h.rolname, 'may create temporary tables, which the next organization in the session could read: run as the owner of the database'
       || format(' "revoke temporary on database %I from public"', current_database())
  from handlers h where has_database_privilege(h.oid, current_database(), 'temporary')
union all
select h.rolname, 'may create objects in schema ' || n.nspname
  from handlers h join pg_namespace n on n.nspname in ('onceward', 'webhook', 'audit', 'ticketing')
   and has_schema_privilege(h.oid, n.oid, 'create')
