"""A worker in another language that belongs to one organization cannot touch events of another."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from uuid import UUID, uuid4

import asyncpg
import pytest

from onceward.db import Connection, Database
from onceward.trust import create_organization
from onceward.trust.checks import check_sql_logins_are_bound
from onceward.trust.sql_logins import LoginRefused, add_login, list_logins, remove_login

CLAIM = "select * from webhook.claim_next_event($1::uuid)"
MARK = "select webhook.mark_event_result($1, $2::webhook_event_status, null, $3)"
SOURCE = """
insert into onceward.sources (organization_id, name, provider, mode) values ($1, $2, 'generic', $3) returning webhook_id
"""
INSERT = "insert into webhook_events (webhook_id, event_id, payload) values ($1, $2, '{}') returning id"


@dataclass(frozen=True, slots=True)
class Clinic:
    """An organization with an external source, an event of it, and a connection of its worker."""

    slug: str
    organization: UUID
    login: str
    source: UUID
    event: UUID
    worker: Connection


@pytest.fixture
async def clinics(db: Database) -> AsyncIterator[list[Clinic]]:
    made: list[Clinic] = []
    for slug in ("one", "two"):
        login = f"{slug}_{secrets.token_hex(4)}"
        async with db.transaction(role="engine") as tx:
            organization = (await create_organization(tx, slug, name=slug, actor="test")).organization_id
            password = await add_login(tx, login, organization=organization, actor="test")
        source: UUID = await db.fetchval(SOURCE, organization, f"lab-{slug}", "external")
        event: UUID = await db.fetchval(INSERT, source, "evt-1")
        worker = await asyncpg.connect(db.url, user=login, password=password)
        made.append(Clinic(slug, organization, login, source, event, worker))
    yield made
    for clinic in made:
        await clinic.worker.close()
        if await db.fetchval("select exists (select from onceward.sql_logins where login = $1)", clinic.login):
            async with db.transaction(role="engine") as tx:
                await remove_login(tx, clinic.login, actor="test")


async def test_it_reads_claims_and_finishes_its_own_events_only(db: Database, clinics: list[Clinic]) -> None:
    one, two = clinics
    assert [row["id"] for row in await one.worker.fetch("select * from webhook_events")] == [one.event]
    assert await one.worker.fetch("select * from webhook_events where id = $1", two.event) == []
    claimed = await one.worker.fetchrow(CLAIM, None)
    assert claimed is not None
    assert (claimed["id"], claimed["webhook_id"]) == (one.event, one.source)
    assert await one.worker.fetchrow(CLAIM, None) is None, "the other organization's event waits, and is not offered"
    assert await one.worker.fetchrow(CLAIM, two.source) is None
    await one.worker.execute(MARK, one.event, "success", claimed["lease"])
    assert await db.fetchval("select status from webhook_events where id = $1", one.event) == "success"


async def test_a_foreign_event_and_an_unknown_one_give_the_same_error(db: Database, clinics: list[Clinic]) -> None:
    one, two = clinics
    held = await two.worker.fetchrow(CLAIM, None)
    assert held is not None
    for lease in (held["lease"], None):
        for status in ("success", "dead_letter", "pending", "processing"):
            for id in (two.event, uuid4()):
                with pytest.raises(asyncpg.PostgresError, match=f"event {id} is not held under this lease"):
                    await one.worker.execute(MARK, id, status, lease)
    assert await one.worker.execute("update webhook_events set status = 'pending'") == "UPDATE 1", "its own one"
    for statement in (
        "select webhook.release_expired('0 seconds')",
        "select * from onceward.sql_logins",
        "select * from onceward.sources",
        "select * from onceward.audit_log",
        "delete from onceward.webhook_events",
        "set role onceward_sql_worker",
        "set role onceward_engine",
        f"update onceward.sql_logins set organization_id = '{two.organization}'",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await one.worker.execute(statement)
    await two.worker.execute(MARK, two.event, "success", held["lease"])
    with pytest.raises(asyncpg.PostgresError, match="is not held"):
        await one.worker.execute(MARK, two.event, "success", None)


async def test_it_inserts_events_of_its_own_sources_only(db: Database, clinics: list[Clinic]) -> None:
    one, two = clinics
    await one.worker.execute(f"set onceward.organization = '{two.organization}'")
    await one.worker.execute(INSERT, one.source, "evt-2")
    assert await db.fetchval("select organization_id from webhook_events where event_id = 'evt-2'") == one.organization
    platform: UUID = await db.fetchval(SOURCE, None, "platform", "external")
    handled_here: UUID = await db.fetchval(SOURCE, one.organization, "inside", "ack")
    for source in (two.source, platform, handled_here, uuid4()):
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
            await one.worker.execute(INSERT, source, "evt-3")


async def test_the_oldest_event_of_its_sources_comes_first_and_pauses_hold(db: Database, clinics: list[Clinic]) -> None:
    one, _ = clinics
    second: UUID = await db.fetchval(SOURCE, one.organization, "second", "external")
    await db.execute(INSERT, second, "evt-2")
    await db.execute("update onceward.sources set paused_at = now() where webhook_id = $1", one.source)
    claimed = await one.worker.fetchrow(CLAIM, None)
    assert (claimed or {})["event_id"] == "evt-2"
    assert await one.worker.fetchrow(CLAIM, None) is None
    await db.execute("update onceward.sources set paused_at = null where webhook_id = $1", one.source)
    await db.execute(INSERT, second, "evt-3")
    order = [(await one.worker.fetchrow(CLAIM, None) or {})["event_id"] for _ in range(2)]
    assert order == ["evt-1", "evt-3"]


async def test_a_claim_takes_no_event_that_another_worker_is_claiming(db: Database, clinics: list[Clinic]) -> None:
    one, _ = clinics
    await db.execute(INSERT, one.source, "evt-2")
    other = await asyncpg.connect(db.url)
    try:
        async with other.transaction():
            first = await other.fetchrow(CLAIM, one.source)
            mine = await one.worker.fetchrow(CLAIM, None)
            assert {(first or {})["event_id"], (mine or {})["event_id"]} == {"evt-1", "evt-2"}
    finally:
        await other.close()


async def test_a_worker_of_the_installation_still_gets_every_event(db: Database, clinics: list[Clinic]) -> None:
    login = f"all_{secrets.token_hex(4)}"
    await db.execute(f"create role {login} login in role onceward_sql_worker")
    try:
        worker = await asyncpg.connect(db.url, user=login)
        try:
            assert len(await worker.fetch("select * from webhook_events")) == 2
            claimed = [await worker.fetchrow(CLAIM, None) for _ in clinics]
            assert {(row or {})["id"] for row in claimed} == {clinic.event for clinic in clinics}
            for row in claimed:
                assert row is not None
                await worker.execute(MARK, row["id"], "success", row["lease"])
        finally:
            await worker.close()
    finally:
        await db.execute(f"drop role {login}")


async def test_a_login_without_its_organization_sees_nothing(db: Database, clinics: list[Clinic]) -> None:
    """The role alone opens nothing: in another database of the server, or after the organization was deleted."""
    one, _ = clinics
    await db.execute("delete from onceward.sql_logins where login = $1", one.login)
    try:
        assert await one.worker.fetch("select * from webhook_events") == []
        assert await one.worker.fetchrow(CLAIM, None) is None
        with pytest.raises(asyncpg.PostgresError, match="is not held"):
            await one.worker.execute(MARK, one.event, "success", None)
    finally:
        insert = "insert into onceward.sql_logins (login, organization_id) values ($1, $2)"
        await db.execute(insert, one.login, uuid4())
    assert await one.worker.fetch("select * from webhook_events") == []
    assert await one.worker.fetchrow(CLAIM, None) is None


async def test_logins_are_listed_audited_and_removed_with_their_sessions(db: Database, clinics: list[Clinic]) -> None:
    one, two = clinics
    async with db.acquire() as conn:
        listed = {each.login: each.organization for each in await list_logins(conn)}
        assert listed == {one.login: "one", two.login: "two"}
        assert await check_sql_logins_are_bound(conn) == []
        await conn.execute(f"grant onceward_sql_worker to {two.login}")
        problems = await check_sql_logins_are_bound(conn)
        assert problems == [
            f"the login {two.login} belongs to one organization, but is also a member of onceward_sql_worker"
        ]
    async with db.transaction(role="engine") as tx:
        await remove_login(tx, one.login, actor="test")
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await one.worker.fetch("select 1")
    assert not await db.fetchval("select exists (select from pg_roles where rolname = $1)", one.login)
    recorded = await db.fetch("select action, entity_id from onceward.audit_log where entity_type = 'sql_login'")
    assert ("sql_login.removed", one.login) in [tuple(row) for row in recorded]
    async with db.transaction(role="engine") as tx:
        for login, problem in ((two.login, "exists already"), ("Robert'; drop", "must begin with a letter")):
            with pytest.raises(LoginRefused, match=problem):
                await add_login(tx, login, organization=one.organization, actor="test")
        with pytest.raises(LoginRefused, match="not a login"):
            await remove_login(tx, "postgres", actor="test")
