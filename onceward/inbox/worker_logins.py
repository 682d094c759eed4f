"""Database logins of workers in other languages that handle the events of one organization.

The database binds such a login to its organization (`onceward.worker_logins`): it reads, claims and marks only events
of that organization's external sources, whatever it asks for. Only the owner of the tables can create one.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import asyncpg

from onceward.db import Connection, Transaction
from onceward.db.roles import scram_verifier
from onceward.errors import OncewardError
from onceward.trust import audit

ROLE = "onceward_organization_worker"
AS_OWNER = "set local role none"  # the engine may create no login
NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
LIST = """
select l.login, l.organization_id, o.slug as organization, l.created_at
  from onceward.worker_logins l left join onceward.organizations o using (organization_id) order by l.login
"""


class LoginRefused(OncewardError):
    """The login cannot be created or removed. The message says what to do."""


@dataclass(frozen=True, slots=True)
class WorkerLogin:
    """A login and its organization. The slug is None if the organization was deleted; the login sees nothing then."""

    login: str
    organization_id: UUID
    organization: str | None
    created_at: datetime


async def add_login(tx: Transaction, login: str, *, organization: UUID, actor: str) -> str:
    """Create a login for workers of the organization. Returns its password, which is stored nowhere."""
    if NAME.fullmatch(login) is None:
        raise LoginRefused(f"login {login!r} must begin with a letter and contain only a-z, 0-9 and _")
    if await tx.fetchval("select exists (select from pg_roles where rolname = $1)", login):
        raise LoginRefused(f"the role {login} exists already: choose another name, or remove it first")
    password = secrets.token_urlsafe(24)
    await tx.execute(AS_OWNER)
    try:
        # The verifier, never the password: a server may log statements.
        await tx.execute(f"create role {login} login password '{scram_verifier(password)}'")
        await tx.execute(f"grant {ROLE} to {login}")
    except asyncpg.InsufficientPrivilegeError as error:
        raise LoginRefused(
            f"this login may not create the role {login}: {error}; use a login with CREATEROLE as ONCEWARD_MIGRATION_URL"
        ) from error
    await tx.execute("insert into onceward.worker_logins (login, organization_id) values ($1, $2)", login, organization)
    await _record(tx, "sql_worker.added", login, organization, actor)
    return password


async def list_logins(conn: Connection) -> list[WorkerLogin]:
    return [WorkerLogin(**dict(row)) for row in await conn.fetch(LIST)]


async def remove_login(tx: Transaction, login: str, *, actor: str) -> None:
    """Drop the login and end its sessions, so that it can neither log in again nor go on."""
    organization = await tx.fetchval("select organization_id from onceward.worker_logins where login = $1", login)
    if organization is None:
        raise LoginRefused(
            f"{login} is not the login of an organization's worker: `onceward sql-workers ls` lists them"
        )
    await tx.execute(AS_OWNER)
    await tx.execute("select pg_terminate_backend(pid) from pg_stat_activity where usename = $1", login)
    # Rights that others have granted to the login would keep it from being dropped.
    await tx.execute(f"grant {login} to current_user; drop owned by {login}; drop role {login}")
    await tx.execute("delete from onceward.worker_logins where login = $1", login)
    await _record(tx, "sql_worker.removed", login, organization, actor)


async def _record(tx: Transaction, action: str, login: str, organization: UUID, actor: str) -> None:
    await audit.record(tx, action, entity_type="sql_worker", entity_id=login, actor=actor, organization=organization)
