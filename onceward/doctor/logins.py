"""The checks of the database login: what it may do, what it should not be able to do, and the roles that it acts as."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import asyncpg

from onceward.db import ENGINE_ROLE, Connection
from onceward.db.servers import Servers
from onceward.doctor.finding import Finding
from onceward.feature import Migrations
from onceward.settings import Settings
from onceward.statements import read_statement

LOGIN = read_statement("doctor", "login")
TWO_LOGINS = "use a second login for processes, which owns nothing (docs/database.md#two-logins)"


@asynccontextmanager
async def rolled_back(conn: Connection) -> AsyncGenerator[None]:
    """Open a transaction that is always rolled back."""
    transaction = conn.transaction()
    await transaction.start()
    try:
        yield
    finally:
        await transaction.rollback()


async def check_rights(login: Connection, settings: Settings, migrations: Sequence[Migrations]) -> Finding:
    """Check that the login of migrations can create a schema and the roles. The check rolls everything back."""
    if settings.migration_url is None:
        return await _check_rights(login, migrations)
    try:
        owner = await Servers(settings.migration_url.get_secret_value()).connect(timeout=5, statement_cache_size=0)
    except Exception as error:
        return Finding("rights", "fail", f"cannot connect to ONCEWARD_MIGRATION_URL: {error or type(error).__name__}")
    try:
        return await _check_rights(owner, migrations)
    finally:
        await owner.close(timeout=5)


async def _check_rights(conn: Connection, migrations: Sequence[Migrations]) -> Finding:
    row = await conn.fetchrow(
        "select current_user as who, current_database() as name,"
        " has_database_privilege(current_database(), 'create') as may_create,"
        " (select pg_get_userbyid(nspowner) from pg_namespace where nspname = 'onceward') as owner"
    )
    assert row is not None
    who, name = row["who"], row["name"]
    if row["owner"] is not None and not await conn.fetchval("select pg_has_role($1::name, 'usage')", row["owner"]):
        text = f"user {who} does not own the schema, as it should be; migrations need the login {row['owner']}"
        return Finding("rights", "ok", text)
    if not row["may_create"]:
        remedy = f'run as an administrator: grant create on database "{name}" to "{who}"'
        return Finding("rights", "fail", f"user {who} may not create schemas in database {name}", remedy)
    try:
        async with rolled_back(conn):
            for script in (each.before for each in migrations if each.before is not None):
                await conn.execute(script.read_text(encoding="utf-8"))
    except asyncpg.InsufficientPrivilegeError as error:
        return Finding("rights", "fail", str(error.args[0]), error.hint or "")
    return Finding("rights", "ok", f"user {who} has the privileges that Onceward needs in database {name}")


async def check_login(login: Connection, engine: Connection, settings: Settings) -> Finding:
    """Warn of a login of running processes with which faulty or injected SQL could do more than the engine may."""
    if settings.database_url is None:
        return Finding("login", "ok", "the embedded server is reachable for the account of this process only")
    row = await login.fetchrow(LOGIN)
    assert row is not None
    who = row["who"]
    if row["superuser"]:
        return Finding("login", "warn", f"user {who} is a superuser: it can change the audit log", TWO_LOGINS)
    if row["owns"]:
        return Finding("login", "warn", f"user {who} owns the tables: it can change the audit log", TWO_LOGINS)
    if row["migrated"] and await engine.fetchval("select current_user") != ENGINE_ROLE:
        remedy = f"run as an administrator: alter role \"{who}\" set role = '{ENGINE_ROLE}'"
        return Finding("login", "warn", f"sessions of user {who} do not act as {ENGINE_ROLE}", remedy)
    if row["migrated"] and await engine.fetchval(
        "select exists (select from onceward.server_sessions() where is_hidden)"
    ):
        remedy = f'run as an administrator: grant "{who}" to "{row["owner"]}"'
        return Finding("login", "warn", f"the owner of the tables cannot see the sessions of user {who}", remedy)
    return Finding("login", "ok", f"user {who} owns nothing; its sessions act as {ENGINE_ROLE}")


async def check_roles(login: Connection) -> Finding:
    """Check that row-level security binds `onceward_app` and that a handler can write as this role."""
    row = await login.fetchrow(
        "select rolsuper, rolbypassrls, has_database_privilege(oid, current_database(), 'temporary') as temporary,"
        " current_database() as name from pg_roles where rolname = 'onceward_app'"
    )
    if row is None:
        return Finding("roles", "warn", "role onceward_app does not exist yet", "`onceward migrate` creates it")
    if row["rolsuper"] or row["rolbypassrls"]:
        remedy = "run as an administrator: alter role onceward_app nosuperuser nobypassrls"
        return Finding("roles", "fail", "onceward_app can bypass row-level security", remedy)
    # The names in the catalogue: the login itself may not look into the schema.
    if await login.fetchval(
        "select not exists (select from pg_proc where proname = 'organization' and pronamespace ="
        " (select oid from pg_namespace where nspname = 'onceward'))"
    ):
        return Finding("roles", "warn", "role onceward_app has no tables here yet", "`onceward migrate` creates them")
    try:
        async with rolled_back(login):
            await login.execute("set local role onceward_app; set local onceward.organization = ''")
            await login.execute("select onceward.enqueue('onceward.doctor', '{}')")
    except asyncpg.PostgresError as error:
        who = await login.fetchval("select session_user")
        options = " with inherit false, set true" if login.get_server_version().major >= 16 else ""
        remedy = f'run `onceward migrate`, or as an administrator: grant onceward_app to "{who}"{options}'
        return Finding("roles", "fail", f"user {who} cannot write as onceward_app: {error}", remedy)
    if row["temporary"]:
        remedy = f'run as the owner of the database: revoke temporary on database "{row["name"]}" from public'
        return Finding(
            "roles", "warn", "handlers may create temporary tables, which the next organization sees", remedy
        )
    return Finding("roles", "ok", "a handler can write as onceward_app, which is bound by row-level security")
