"""What must hold of trust at any time: isolation in the catalogue, roles, the audit chain."""

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
select r.rolname as role,
       case when r.rolsuper then 'is a superuser' when r.rolbypassrls then 'has BYPASSRLS'
            when r.rolcreaterole then 'may create roles' end as problem
from pg_roles r
where (r.rolname = 'onceward_app' or pg_has_role('onceward_app', r.oid, 'member'))
  and (r.rolsuper or r.rolbypassrls or r.rolcreaterole)
union all
select 'onceward_app', 'is a member of ' || r.rolname
from pg_roles r where r.rolname = 'onceward_engine' and pg_has_role('onceward_app', r.oid, 'member')
union all
select 'onceward_app', 'owns ' || c.oid::regclass
from pg_class c where c.relkind in ('r', 'p', 'v') and pg_has_role('onceward_app', c.relowner, 'member')
union all
select 'onceward_app', 'may truncate ' || c.oid::regclass
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and n.nspname = 'onceward' and has_table_privilege('onceward_app', c.oid, 'truncate')
"""

DEFINERS = """
select p.oid::regprocedure::text as function,
       not coalesce(array_to_string(p.proconfig, ',') like '%search_path=%', false) as open_path,
       coalesce((select bool_or(a.grantee = 0) from aclexplode(p.proacl) a), true) as public
from pg_proc p join pg_namespace n on n.oid = p.pronamespace
where p.prosecdef and n.nspname not in ('pg_catalog', 'information_schema')
"""


async def check_tenant_tables_are_protected(conn: Connection) -> Sequence[str]:
    """Every table with organization_id has row-level security, and no policy that lets the app role past it."""
    problems: list[str] = []
    for row in await conn.fetch(TENANT_TABLES):
        if not row["enabled"]:
            problems.append(f"{row['table']} has organization_id and no row-level security: call onceward.protect")
            continue
        for expression in {*row["quals"], *row["checks"]} - {None}:
            if "onceward.organization()" not in expression or "organization_id" not in expression:
                problems.append(f"{row['table']} has a policy for the app role that ignores the organization")
    for row in await conn.fetch(VIEWS):
        problems.append(f"view {row['view']} reads with its owner's rights: add (security_invoker = true)")
    return problems


async def check_app_role_cannot_bypass(conn: Connection) -> Sequence[str]:
    """The role of handlers and API is bound by row-level security, whatever it tries."""
    return [f"{row['role']} {row['problem']}" for row in await conn.fetch(BYPASS)]


async def check_definer_functions_are_closed(conn: Connection) -> Sequence[str]:
    """A function that runs with its owner's rights pins its search_path and is not for everybody."""
    problems: list[str] = []
    for row in await conn.fetch(DEFINERS):
        if row["open_path"]:
            problems.append(f"{row['function']} is SECURITY DEFINER without a fixed search_path")
        if row["public"]:
            problems.append(f"{row['function']} is SECURITY DEFINER and may be called by PUBLIC")
    return problems


async def check_audit_chain(conn: Connection) -> Sequence[str]:
    """No audit entry was changed, lost or moved since it was sealed."""
    return (await chain.prove_within(conn)).problems


def check_secrets_can_be_opened(box: SecretBox, columns: Iterable[SealedColumn]) -> Check:
    """Every encrypted value of these columns opens with the keys of this process."""
    return Check("trust.secrets_can_be_opened", partial(unreadable, box=box, columns=columns))


CHECKS: tuple[Check, ...] = (
    Check("trust.tenant_tables_are_protected", check_tenant_tables_are_protected),
    Check("trust.app_role_cannot_bypass", check_app_role_cannot_bypass),
    Check("trust.definer_functions_are_closed", check_definer_functions_are_closed),
    Check("trust.audit_chain", check_audit_chain),
)
