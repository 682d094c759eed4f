"""The invariants of trust: row-level security, roles, functions and the audit chain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from onceward.db import Connection
from onceward.feature import SealedColumn
from onceward.trust import chain
from onceward.trust.invariants import Check
from onceward.trust.secrets import SecretBox, unreadable

TENANT_TABLES = """
select n.nspname || '.' || c.relname as table, c.relrowsecurity as enabled,
       coalesce(array_agg(pg_get_expr(p.polqual, p.polrelid)) filter (where p.oid is not null
           and p.polcmd in ('*', 'r', 'w', 'd')), '{}') as quals,
       coalesce(array_agg(pg_get_expr(p.polwithcheck, p.polrelid)) filter (where p.oid is not null
           and p.polcmd in ('*', 'a', 'w')), '{}') as checks
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
join pg_attribute a on a.attrelid = c.oid and a.attname = 'organization_id' and not a.attisdropped
left join pg_policy p on p.polrelid = c.oid and p.polpermissive
    and (p.polroles && array[0::oid, 'onceward_app'::regrole::oid])
where c.relkind in ('r', 'p') and n.nspname not in ('pg_catalog', 'information_schema') and n.nspname !~ '^pg_'
  and (has_any_column_privilege('onceward_app', c.oid, 'select, insert, update')
       or has_table_privilege('onceward_app', c.oid, 'delete')
       or not c.relrowsecurity)
group by 1, 2 order by 1
"""

VIEWS = """
select n.nspname || '.' || c.relname as view
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'v' and n.nspname not in ('pg_catalog', 'information_schema')
  and has_table_privilege('onceward_app', c.oid, 'select')
  and not coalesce(array_to_string(c.reloptions, ',') ~ 'security_invoker=(true|on|1)', false)
  and exists (select from pg_attribute a where a.attrelid = c.oid and a.attname in ('organization_id', 'clinic_id'))
"""

BYPASS = """
with handlers as (
    -- The roles of handlers and of workers in other languages. Neither may be a member of another role.
    select oid, rolname, rolsuper, rolbypassrls, rolcreaterole, rolcreatedb from pg_roles
     where rolname in ('onceward_app', 'onceward_sql_worker')
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
select h.rolname, 'may create objects in schema ' || n.nspname
  from handlers h join pg_namespace n on n.nspname in ('onceward', 'webhook', 'audit', 'ticketing')
   and has_schema_privilege(h.oid, n.oid, 'create')
"""

DEFINERS = """
select p.oid::regprocedure::text as function,
       not coalesce(array_to_string(p.proconfig, ',') like '%search_path=%', false) as open_path,
       coalesce((select bool_or(a.grantee = 0) from aclexplode(p.proacl) a), true) as public
from pg_proc p join pg_namespace n on n.oid = p.pronamespace
where p.prosecdef and n.nspname not in ('pg_catalog', 'information_schema')
"""


async def check_tenant_tables_are_protected(conn: Connection) -> Sequence[str]:
    """Every table with organization_id has row-level security, and every policy of the app role uses it."""
    problems: list[str] = []
    for row in await conn.fetch(TENANT_TABLES):
        if not row["enabled"]:
            problems.append(f"{row['table']} has organization_id but no row-level security: call onceward.protect")
            continue
        for expression in {*row["quals"], *row["checks"]} - {None}:
            if "onceward.organization()" not in expression or "organization_id" not in expression:
                problems.append(f"{row['table']} has a policy for the app role that ignores the organization")
    for row in await conn.fetch(VIEWS):
        problems.append(f"view {row['view']} reads with its owner's rights: add (security_invoker = true)")
    return problems


async def check_app_role_cannot_bypass(conn: Connection) -> Sequence[str]:
    """The roles of handlers, API and SQL workers cannot bypass row-level security."""
    return [f"{row['role']} {row['problem']}" for row in await conn.fetch(BYPASS)]


async def check_definer_functions_are_closed(conn: Connection) -> Sequence[str]:
    """A function that runs with its owner's rights has a fixed search_path, and PUBLIC may not call it."""
    problems: list[str] = []
    for row in await conn.fetch(DEFINERS):
        if row["open_path"]:
            problems.append(f"{row['function']} is SECURITY DEFINER without a fixed search_path")
        if row["public"]:
            problems.append(f"{row['function']} is SECURITY DEFINER and may be called by PUBLIC")
    return problems


async def check_audit_chain(conn: Connection) -> Sequence[str]:
    """No audit entry has been changed, deleted or moved since it was sealed."""
    return (await chain.prove_within(conn)).problems


def check_secrets_can_be_opened(box: SecretBox, columns: Iterable[SealedColumn]) -> Check:
    """Return the check that the keys of this process open every encrypted value of these columns."""
    return Check("trust.secrets_can_be_opened", partial(unreadable, box=box, columns=columns))


CHECKS: tuple[Check, ...] = (
    Check("trust.tenant_tables_are_protected", check_tenant_tables_are_protected),
    Check("trust.app_role_cannot_bypass", check_app_role_cannot_bypass),
    Check("trust.definer_functions_are_closed", check_definer_functions_are_closed),
    Check("trust.audit_chain", check_audit_chain),
)
