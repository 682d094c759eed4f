"""The invariants of trust: row-level security, roles, functions and the audit chain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from onceward.db import Connection
from onceward.feature import SealedColumn
from onceward.statements import read_statement
from onceward.trust import chain
from onceward.trust.invariants import Check, Proven, Resumed, resumable
from onceward.trust.secrets import SecretBox, unreadable

TENANT_TABLES = read_statement("trust", "check_tenant_tables")
VIEWS = read_statement("trust", "check_views")
BYPASS = read_statement("trust", "check_handler_roles")
DEFINERS = read_statement("trust", "check_definers")
LOGINS = read_statement("trust", "check_sql_logins")


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


async def check_sql_logins_are_bound(conn: Connection) -> Sequence[str]:
    """Check that a login of one organization has no other role, with which it could see other organizations."""
    return [
        f"the login {row['login']} belongs to one organization, but is also a member of {row['role']}"
        for row in await conn.fetch(LOGINS)
    ]


async def check_definer_functions_are_closed(conn: Connection) -> Sequence[str]:
    """A function that runs with its owner's rights has a fixed search_path, and PUBLIC may not call it."""
    problems: list[str] = []
    for row in await conn.fetch(DEFINERS):
        if row["open_path"]:
            problems.append(f"{row['function']} is SECURITY DEFINER without a fixed search_path")
        if row["public"]:
            problems.append(f"{row['function']} is SECURITY DEFINER and may be called by PUBLIC")
    return problems


def check_audit_chain(box: SecretBox, known: Sequence[chain.Head] = ()) -> Check:
    """Return the check that no audit entry has been changed, deleted or moved since it was sealed."""

    async def resume(conn: Connection, resumed: Resumed) -> Proven:
        report = await chain.prove_within(conn, box, known=known, since=resumed.mark, tell=resumed.tell)
        return Proven(report.problems, report.mark)

    return resumable(chain.CHECK, resume)


def check_secrets_can_be_opened(box: SecretBox, columns: Iterable[SealedColumn]) -> Check:
    """Return the check that the keys of this process open every encrypted value of these columns."""
    return Check("trust.secrets_can_be_opened", partial(unreadable, box=box, columns=columns))


CHECKS: tuple[Check, ...] = (
    Check("trust.tenant_tables_are_protected", check_tenant_tables_are_protected),
    Check("trust.app_role_cannot_bypass", check_app_role_cannot_bypass),
    Check("trust.definer_functions_are_closed", check_definer_functions_are_closed),
    Check("trust.sql_logins_are_bound", check_sql_logins_are_bound),
)
