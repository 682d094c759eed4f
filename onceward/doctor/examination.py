"""The checks of `onceward doctor`. Each check examines one thing and returns its status and what to do.

A check is a function that returns a `Finding`. To add one, write the function and add it to `DATABASE_CHECKS`.
"""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import asyncpg

from onceward import __version__
from onceward.db import ENGINE_ROLE, Connection, DatabaseError, Migration, MigrationError, plan
from onceward.db.configured import OLDEST_SERVER
from onceward.db.embedded import EmbeddedPostgres
from onceward.db.refusal import explain_refusal
from onceward.db.servers import Servers
from onceward.doctor import connections, logins, processes, secrets, space
from onceward.doctor.finding import Finding
from onceward.feature import Features
from onceward.settings import Settings, SettingsError, load_settings, unknown_names
from onceward.trust.journal import unfinished_commands
from onceward.trust.settings import TrustSettings
from onceward.work.overdue import COUNT as OVERDUE_HANDLERS

GIB = 1024**3


@dataclass(frozen=True, slots=True)
class Patient:
    """The installation that the database checks examine."""

    conn: Connection
    """A session of the engine, or of the login if the engine's role does not exist yet."""
    login: Connection
    """A session that acts as the login itself."""
    settings: Settings
    features: Features


async def examine(features: Features) -> list[Finding]:
    """Return all findings, the most basic first. A check that needs something unreachable is left out."""
    findings = [Finding("version", "ok", f"onceward {__version__}, Python {platform.python_version()}")]
    findings += [
        Finding("settings", "warn", str(unknown), "correct or remove it")
        for unknown in unknown_names(os.environ, features.settings)
    ]
    try:
        settings = load_settings(features.settings)
    except SettingsError as error:
        return [
            *findings,
            *(Finding("settings", "fail", line, "see docs/settings.md") for line in str(error).splitlines()),
        ]
    findings += check_settings(settings)
    findings.append(check_disk(settings))
    if settings.database_url is not None:
        return findings + await examine_database(settings.database_url.get_secret_value(), settings, features)
    server = EmbeddedPostgres(settings.data_dir)
    try:
        url = await asyncio.to_thread(server.start)
    except DatabaseError as error:
        return [*findings, Finding("database", "fail", f"embedded PostgreSQL: {error}")]
    try:
        return findings + await examine_database(url, settings, features)
    finally:
        await asyncio.to_thread(server.stop)


def check_settings(settings: Settings) -> list[Finding]:
    if settings.database_url is not None and not settings.of(TrustSettings).has_secret_key:
        return [
            Finding(
                "settings",
                "warn",
                "ONCEWARD_SECRET_KEY is not set, so each node creates its own key",
                "set the same key on every node; otherwise nodes cannot read each other's stored secrets",
            )
        ]
    return [Finding("settings", "ok", "all values are valid")]


def check_disk(settings: Settings) -> Finding:
    place = settings.data_dir.absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    text = f"{free / GIB:.1f} GiB free at {place}"
    if free < GIB // 4:
        return Finding("disk", "fail", text, "free some space or set ONCEWARD_DATA_DIR to another disk")
    if free < 2 * GIB:
        return Finding("disk", "warn", text, "free some space: PostgreSQL stops when the disk is full")
    return Finding("disk", "ok", text)


async def examine_database(url: str, settings: Settings, features: Features) -> list[Finding]:
    """Connect to the database and run all database checks, or return why the connection failed."""
    login: Connection | None = None
    try:
        login = await Servers(url).connect(timeout=5, statement_cache_size=0)
        engine = Servers(url, role=None if settings.pgbouncer else ENGINE_ROLE)
        conn = await engine.connect(timeout=5, statement_cache_size=0)
    except Exception as error:
        if login is not None:
            login.terminate()
        return [cannot_connect(error)]
    patient = Patient(conn, login, settings, features)
    findings: list[Finding] = []
    try:
        for check in (*DATABASE_CHECKS, *(one for checks in features.load("doctor") for one in checks)):
            findings.append(await _try(check, patient))
            if findings[-1].check == "server" and findings[-1].status == "fail":
                break  # our SQL does not support this server: further findings would mislead
    finally:
        await conn.close(timeout=5)
        await login.close(timeout=5)
    return findings


async def _try(check: Callable[[Patient], Awaitable[Finding]], patient: Patient) -> Finding:
    name = check.__name__.removeprefix("check_")
    try:
        return await check(patient)
    except asyncpg.InsufficientPrivilegeError as error:
        remedy = "grant the privilege, or use the database's owner in ONCEWARD_DATABASE_URL"
        return Finding(name, "fail", f"missing privilege for this check: {error}", remedy)
    except asyncpg.PostgresError as error:
        return Finding(name, "fail", f"PostgreSQL returned an error: {error}", "see the server's log")


def cannot_connect(error: Exception) -> Finding:
    reason, remedy = explain_refusal(error)
    return Finding("database", "fail", f"cannot connect: {reason}", remedy)


async def check_server(patient: Patient) -> Finding:
    number = int(await patient.conn.fetchval("show server_version_num"))
    text = f"PostgreSQL {await patient.conn.fetchval('show server_version')}"
    if number < OLDEST_SERVER:
        return Finding("server", "fail", f"{text} is too old", "upgrade to PostgreSQL 15 or newer")
    encoding = await patient.conn.fetchval("show server_encoding")
    if encoding != "UTF8":
        return Finding("server", "fail", f"{text}, encoding {encoding}", "create the database with encoding UTF8")
    return Finding("server", "ok", text)


async def check_clock(patient: Patient) -> Finding:
    before = time.time()
    database_time = float(await patient.conn.fetchval("select extract(epoch from clock_timestamp())"))
    after = time.time()
    skew = max(0.0, before - database_time, database_time - after)
    text = f"differs from the database's clock by at least {skew * 1000:.0f} ms"
    if skew < 1:
        return Finding("clock", "ok", "differs from the database's clock by less than a second")
    remedy = "synchronise both clocks (NTP): signatures contain timestamps"
    return Finding("clock", "fail" if skew > 60 else "warn", text, remedy)


async def check_connections(patient: Patient) -> Finding:
    return await connections.check_connections(patient.login, patient.settings)


async def check_durability(patient: Patient) -> Finding:
    off = [
        name
        for name in ("fsync", "full_page_writes", "synchronous_commit")
        if await patient.conn.fetchval("select current_setting($1)", name) == "off"
    ]
    if off:
        only_commit = off == ["synchronous_commit"]
        risk = "a crash can lose committed data" if only_commit else "a crash can corrupt the data"
        return Finding("durability", "fail", f"{', '.join(off)} = off: {risk}", "switch on in postgresql.conf")
    return Finding("durability", "ok", "fsync, full_page_writes and synchronous_commit are on")


async def check_rights(patient: Patient) -> Finding:
    return await logins.check_rights(patient.login, patient.settings, patient.features.migrations)


async def check_login(patient: Patient) -> Finding:
    return await logins.check_login(patient.login, patient.conn, patient.settings)


async def check_migrations(patient: Patient) -> Finding:
    try:
        pending = await plan(patient.conn, patient.features.migrations)
    except MigrationError as error:
        return Finding("migrations", "fail", str(error))
    if pending and all(isinstance(file, Migration) and file.contracts for file in pending):
        remedy = "run `onceward migrate` when all nodes have this version (`onceward db processes` lists them)"
        return Finding("migrations", "ok", f"{len(pending)} deferred, first {pending[0]}", remedy)
    if pending:
        remedy = "`onceward migrate` applies them" + (
            ", and every process does so at start" if patient.settings.auto_migrate else ""
        )
        return Finding("migrations", "warn", f"{len(pending)} pending, first {pending[0]}", remedy)
    return Finding("migrations", "ok", "none pending")


async def check_roles(patient: Patient) -> Finding:
    return await logins.check_roles(patient.login)


async def check_secrets(patient: Patient) -> Finding:
    return await secrets.check_secrets(patient.conn, patient.settings, patient.features.sealed)


async def check_vacuum(patient: Patient) -> Finding:
    return await space.check_vacuum(patient.conn)


async def check_old_snapshots(patient: Patient) -> Finding:
    return await space.check_old_snapshots(patient.login)


async def check_loops(patient: Patient) -> Finding:
    return await processes.check_loops(patient.conn)


async def check_work(patient: Patient) -> Finding:
    return await processes.check_work(patient.conn)


async def check_schedules(patient: Patient) -> Finding:
    return await processes.check_schedules(patient.conn)


async def check_size(patient: Patient) -> Finding:
    settings = patient.settings
    return await space.check_size(patient.conn, settings.data_dir / "pg" if settings.database_url is None else None)


async def check_commands(patient: Patient) -> Finding:
    unfinished = await unfinished_commands(patient.conn)
    if not unfinished:
        return Finding("commands", "ok", "no command was interrupted")
    text = "; ".join(f"{each.command} on {each.host} ({each.step})" for each in unfinished)
    status = "fail" if any(each.blocks for each in unfinished) else "warn"
    remedy = "; ".join(sorted({f"{each.command}: {each.remedy}" for each in unfinished}))
    return Finding("commands", status, f"not finished: {text}", remedy)


async def check_overdue_handlers(patient: Patient) -> Finding:
    if await patient.conn.fetchval("select to_regclass('onceward.workers')") is None:
        return Finding("handlers", "ok", "the schema does not exist yet")
    rows = await patient.conn.fetch(OVERDUE_HANDLERS)
    if not rows:
        return Finding("handlers", "ok", "no handler runs longer than its timeout")
    text = ", ".join(f"{row['count']} of {row['task']} (first: {row['first_id']})" for row in rows)
    remedy = (
        "the log names their lines (`handler.overdue`); restart the worker to end them, and let the "
        "functions end in time"
    )
    return Finding("handlers", "warn", f"handlers exceed their timeout and cannot be stopped: {text}", remedy)


DATABASE_CHECKS: tuple[Callable[[Patient], Awaitable[Finding]], ...] = (
    check_server,
    check_clock,
    check_connections,
    check_durability,
    check_rights,
    check_login,
    check_migrations,
    check_roles,
    check_commands,
    check_secrets,
    check_vacuum,
    check_old_snapshots,
    check_loops,
    check_work,
    check_schedules,
    check_size,
    check_overdue_handlers,
)
