"""Prepare the login of running processes: it may act as the engine and as handlers, and owns nothing.

`onceward migrate` does this with the login that owns the tables, if ONCEWARD_MIGRATION_URL names another login than
ONCEWARD_DATABASE_URL. A login that does not exist is created, if the URL has its password.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from typing import Any

import asyncpg

from onceward.db.errors import MigrationError
from onceward.settings.database_url import libpq_variables
from onceward.statements import read_statement

ROLES = ("onceward_engine", "onceward_app", "onceward_sql_worker")
MISSING = read_statement("db", "missing_roles")
ITERATIONS = 4096


def login_of(url: str) -> str | None:
    """Return the login that a URL names."""
    return libpq_variables(url).get("PGUSER")


async def prepare_login(conn: asyncpg.Connection[Any], url: str) -> None:
    """Create the login of the URL if needed, grant it the roles, and let the owner see its sessions. Repeatable.

    Raises `MigrationError` with the statements for an administrator if the owner may not do this.
    """
    login = login_of(url)
    if login is None:
        return
    await _create(conn, login, libpq_variables(url).get("PGPASSWORD"))
    statements = [row["statement"] for row in await conn.fetch(MISSING, login, list(ROLES))]
    for number, statement in enumerate(statements):
        try:
            await conn.execute(statement)
        except asyncpg.PostgresError as error:
            raise MigrationError(
                f"the login {login} of ONCEWARD_DATABASE_URL lacks roles, and this login cannot grant them: {error};"
                f" as an administrator of the server, run: {'; '.join(statements[number:])};"
            ) from error


async def _create(conn: asyncpg.Connection[Any], login: str, password: str | None) -> None:
    if await conn.fetchval("select exists (select from pg_roles where rolname = $1)", login):
        return
    quoted = '"' + login.replace('"', '""') + '"'
    advice = f"as an administrator of the server, run: create role {quoted} login noinherit password '...';"
    if password is None or not password.isascii():
        raise MigrationError(f"the login {login} of ONCEWARD_DATABASE_URL does not exist; {advice}")
    try:
        # The verifier, never the password: a server may log statements.
        await conn.execute(f"create role {quoted} login noinherit password '{scram_verifier(password)}'")
    except asyncpg.DuplicateObjectError:
        return  # another node has created it meanwhile
    except asyncpg.PostgresError as error:
        raise MigrationError(
            f"the login {login} of ONCEWARD_DATABASE_URL does not exist,"
            f" and this login cannot create it: {error}; {advice}"
        ) from error


def scram_verifier(password: str, salt: bytes | None = None) -> str:
    """Return what PostgreSQL stores of a password (RFC 5803), from which nobody can read the password."""
    salt = secrets.token_bytes(16) if salt is None else salt
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, ITERATIONS)
    client = hmac.digest(salted, b"Client Key", "sha256")
    server = hmac.digest(salted, b"Server Key", "sha256")
    stored = hashlib.sha256(client).digest()
    salt_text, stored_text, server_text = (base64.b64encode(part).decode() for part in (salt, stored, server))
    return f"SCRAM-SHA-256${ITERATIONS}:{salt_text}${stored_text}:{server_text}"
