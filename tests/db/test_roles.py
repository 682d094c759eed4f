"""Handlers act as `onceward_app` on every server and for every kind of user that can be made able to."""

from __future__ import annotations

import base64
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import asyncpg
import pytest
from pydantic import SecretStr

from onceward.db import MigrationError
from onceward.db.configured import ConfiguredDatabase
from onceward.db.roles import scram_verifier
from onceward.doctor.examination import examine_database
from onceward.doctor.finding import Finding
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import Settings
from onceward.testing.databases import with_database
from onceward.trust import record
from onceward.work.settings import WorkSettings
from tests.db.test_other_servers import counting_app, run_ten_jobs


@dataclass(frozen=True)
class Place:
    """A server, and a way to make users and databases on it."""

    admin: asyncpg.Connection
    url: str

    async def run(self, statements: str) -> None:
        await self.admin.execute(statements)

    async def add(self, attributes: str) -> str:
        """A user with these attributes and a database that belongs to it; returns the URL to both."""
        name = f"owner_{uuid.uuid4().hex[:8]}"
        await self.admin.execute(f"create role {name} login {attributes}")
        await self.admin.execute(f"create database {name} owner {name}")
        return with_database(self.url.replace("//postgres@", f"//{name}@", 1), name)


@pytest.fixture(params=["postgres15", "postgres16"])
async def place(request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    """PostgreSQL 15, where membership is enough to act as a role, and 16, where it no longer is.

    Not the tests' own server: other tests use its roles at the same time.
    """
    url = request.getfixturevalue(request.param)
    admin = await asyncpg.connect(url)
    place = Place(admin, url)
    await forget_everything(admin)
    yield place
    await forget_everything(admin)
    await admin.close()


async def forget_everything(admin: asyncpg.Connection) -> None:
    for name in await admin.fetch("select datname from pg_database where datname like 'owner_%'"):
        await admin.execute(f"drop database {name[0]} with (force)")
    await admin.execute("drop schema if exists onceward, audit, webhook cascade; drop table if exists public.counted")
    for name in await admin.fetch("select rolname from pg_roles where rolname ~ '^(onceward_|owner_)'"):
        await admin.execute(f"drop owned by {name[0]} cascade")
    for name in await admin.fetch("select rolname from pg_roles where rolname ~ '^(onceward_|owner_)'"):
        await admin.execute(f"drop role {name[0]}")


def settings_for(url: str) -> Settings:
    return Settings(database_url=SecretStr(url), pool_max=6).using(WorkSettings(poll_interval_ms=50))


async def findings(url: str) -> dict[str, Finding]:
    return {item.check: item for item in await examine_database(url, settings_for(url), FEATURES)}


async def works(url: str) -> None:
    await run_ten_jobs(counting_app(), settings_for(url))
    found = await findings(url)
    assert (found["rights"].status, found["roles"].status) == ("ok", "ok"), found


@pytest.mark.peer
async def test_a_plain_user_gets_the_statements_for_the_administrator_and_they_are_enough(place: Place) -> None:
    url = await place.add("")
    rights = (await findings(url))["rights"]
    assert rights.status == "fail"
    statements = rights.remedy.split("run: ", 1)[1]
    with pytest.raises(MigrationError) as refused:
        await Process(counting_app(), settings_for(url), FEATURES).start({"worker"})
    assert statements in str(refused.value)
    await place.run(statements)
    await works(url)


@pytest.mark.peer
async def test_users_who_may_create_roles_run_handlers_in_two_databases_of_one_cluster(place: Place) -> None:
    await works(await place.add("createrole"))
    url = await place.add("createrole")
    before = (await findings(url))["rights"]
    if before.status == "fail":  # from 16 on only the first owner, or an administrator, may give the roles away
        await place.run(before.remedy.split("run: ", 1)[1])
    await works(url)


@pytest.mark.peer
async def test_processes_run_with_a_login_that_owns_nothing_and_cannot_change_the_audit_log(place: Place) -> None:
    owner = await place.add("createrole")
    name = urlsplit(owner).path.strip("/")
    runtime = owner.replace(f"//{name}@", f"//{name}_runtime:secret@", 1)
    settings = Settings(
        database_url=SecretStr(runtime), migration_url=SecretStr(owner), auto_migrate=False, pool_max=6
    ).using(WorkSettings(poll_interval_ms=50))
    for _ in range(2):  # the second run finds everything prepared
        configured = ConfiguredDatabase(settings, FEATURES.migrations, as_owner=True)
        await configured.open()
        await configured.migrate()
        await configured.close()
    password = await place.admin.fetchval("select rolpassword from pg_authid where rolname = $1", f"{name}_runtime")
    assert password == scram_verifier("secret", base64.b64decode(password.split(":")[1].split("$")[0]))
    await run_ten_jobs(counting_app(), settings, owner_url=owner)

    configured = ConfiguredDatabase(settings)
    db = await configured.open()
    try:
        assert await db.fetchval("select session_user || ' ' || current_user") == f"{name}_runtime onceward_engine"
        async with db.transaction(role="engine") as tx:
            await record(tx, "seat.sold", entity_type="seat", entity_id="A1")
        for forbidden in (
            "alter table onceward.audit_log disable trigger all",
            "delete from onceward.audit_log",
            "update onceward.audit_log set action = 'other'",
            "set session_replication_role = replica",
            "truncate onceward.audit_seals",
            "create table onceward.mine ()",
            "reset role; alter table onceward.audit_log disable trigger all",
            "set role none; delete from onceward.audit_log",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await db.execute(forbidden)
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="temporary"):
            async with db.transaction() as tx:
                await tx.execute("create temporary table seen as select 1")
        sessions = await db.fetch("select * from onceward.server_sessions() where is_hidden")
        assert not sessions, "the owner sees when the transactions of the runtime login began"
    finally:
        await configured.close()
    for url in (runtime, owner):
        found = {each.check: each for each in await examine_database(url, settings, FEATURES)}
        assert (found["rights"].status, found["roles"].status) == ("ok", "ok"), (url, found)
        assert found["login"].status == ("ok" if url == runtime else "warn"), found["login"]


@pytest.mark.peer
async def test_a_superuser_runs_handlers_and_doctor_notices_when_they_could_no_longer_run(place: Place) -> None:
    url = await place.add("superuser")
    await works(url)
    login = (await findings(url))["login"]
    assert login.status == "warn"
    assert "is a superuser" in login.finding
    owner = urlsplit(url).path.strip("/")
    await place.run(f"alter role {owner} nosuperuser createrole")
    if place.admin.get_server_version().major >= 16:
        await place.run(f"grant onceward_app to {owner} with set false, admin true")
    roles = (await findings(url))["roles"]
    assert roles.status == "fail"
    assert "permission denied to set role" in roles.finding
    await place.run(roles.remedy.split("administrator: ", 1)[1])
    assert (await findings(url))["roles"].status == "ok"
