"""Database logins of programs in other languages that belong to one organization: workers and producers.

The database binds such a login to its organization (`onceward.sql_logins`), whatever it asks for. A worker reads,
claims and marks only events of that organization's external sources; a producer enqueues jobs, publishes events and
sends messages of that organization, and reads nothing. Only the owner of the tables can create a login.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args
from uuid import UUID

import asyncpg

from onceward.db import Connection, Transaction
from onceward.db.roles import scram_verifier
from onceward.errors import OncewardError
from onceward.statements import read_statement
from onceward.trust import audit

Right = Literal["work", "produce"]
RIGHTS: tuple[Right, ...] = get_args(Right)
ROLE_OF: dict[Right, str] = {"work": "onceward_organization_worker", "produce": "onceward_producer"}
AS_OWNER = "set local role none"  # the engine may create no login
NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
LIST = read_statement("trust", "list_sql_logins")


class LoginRefused(OncewardError):
    """The login cannot be created or removed. The message says what to do."""


@dataclass(frozen=True, slots=True)
class SqlLogin:
    """A login, its organization and its rights. The slug is None if the organization was deleted."""

    login: str
    organization_id: UUID
    organization: str | None
    may: list[str]
    created_at: datetime


async def add_login(
    tx: Transaction, login: str, *, organization: UUID, actor: str, may: Sequence[Right] = ("work",)
) -> str:
    """Create a login of the organization with these rights. Returns its password, which is stored nowhere."""
    if NAME.fullmatch(login) is None:
        raise LoginRefused(f"login {login!r} must begin with a letter and contain only a-z, 0-9 and _")
    if not may or not set(may) <= set(RIGHTS):
        raise LoginRefused(f"may={list(may)} must name at least one of {', '.join(RIGHTS)}")
    if await tx.fetchval("select exists (select from pg_roles where rolname = $1)", login):
        raise LoginRefused(f"the role {login} exists already: choose another name, or remove it first")
    password = secrets.token_urlsafe(24)
    await tx.execute(AS_OWNER)
    try:
        # The verifier, never the password: a server may log statements.
        await tx.execute(f"create role {login} login password '{scram_verifier(password)}'")
        for right in may:
            await tx.execute(f"grant {ROLE_OF[right]} to {login}")
    except asyncpg.InsufficientPrivilegeError as error:
        raise LoginRefused(
            f"this login may not create the role {login}: {error}; use a login with CREATEROLE as "
            f"ONCEWARD_MIGRATION_URL"
        ) from error
    await tx.execute("insert into onceward.sql_logins (login, organization_id) values ($1, $2)", login, organization)
    await _record(tx, "sql_login.added", login, organization, actor)
    return password


async def list_logins(conn: Connection) -> list[SqlLogin]:
    return [SqlLogin(**dict(row)) for row in await conn.fetch(LIST)]


async def remove_login(tx: Transaction, login: str, *, actor: str) -> None:
    """Drop the login and end its sessions, so that it can neither log in again nor go on."""
    organization = await tx.fetchval("select organization_id from onceward.sql_logins where login = $1", login)
    if organization is None:
        raise LoginRefused(f"{login} is not a login of an organization: `onceward sql-logins ls` lists them")
    await tx.execute(AS_OWNER)
    await tx.execute("select pg_terminate_backend(pid) from pg_stat_activity where usename = $1", login)
    # Rights that others have granted to the login would keep it from being dropped.
    await tx.execute(f"grant {login} to current_user; drop owned by {login}; drop role {login}")
    await tx.execute("delete from onceward.sql_logins where login = $1", login)
    await _record(tx, "sql_login.removed", login, organization, actor)


async def _record(tx: Transaction, action: str, login: str, organization: UUID, actor: str) -> None:
    await audit.record(tx, action, entity_type="sql_login", entity_id=login, actor=actor, organization=organization)
