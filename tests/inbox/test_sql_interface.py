"""Events for other languages: INSERT, UPDATE, claim and mark, as a script of theirs would write it."""

from __future__ import annotations

import asyncpg
import pytest

from onceward import Event, Onceward, Tx
from onceward.db import Database
from onceward.inbox import UpkeepOptions
from onceward.inbox.upkeep import Upkeep

ANYBODY = "00000000-0000-0000-0000-000000000001"
INSERT = """
insert into webhook_events (webhook_id, event_id, payload, status, received_at)
values ($1::uuid, $2::text, $3::jsonb, 'pending', now())
on conflict (webhook_id, event_id) do nothing
returning id
"""


async def claim(db: Database, webhook_id: str | None = None):
    return await db.fetchrow("select * from webhook.claim_next_event($1::uuid)", webhook_id)


async def mark(db: Database, id, status: str, error: str | None = None, lease: int | None = None) -> None:
    await db.execute("select webhook.mark_event_result($1, $2::webhook_event_status, $3, $4)", id, status, error, lease)


async def move_clock(db: Database, seconds: int) -> None:
    await db.execute(
        "create or replace function onceward.now() returns timestamptz language sql stable parallel safe as"
        f" 'select now() + interval ''{seconds} seconds'''"
    )


async def test_an_inserted_event_is_claimed_marked_and_never_stored_twice(db: Database) -> None:
    id = await db.fetchval(INSERT, ANYBODY, "evt-1", {"foo": "bar"})
    assert await db.fetchval(INSERT, ANYBODY, "evt-1", {"foo": "bar"}) is None
    row = await claim(db)
    assert (row["id"], str(row["webhook_id"]), row["event_id"], row["payload"]) == (
        id,
        ANYBODY,
        "evt-1",
        {"foo": "bar"},
    )
    assert await claim(db) is None
    held = await db.fetchrow("select status, attempts from webhook_events")
    assert tuple(held or ()) == ("processing", 1)
    await mark(db, id, "success", lease=row["lease"])
    done = await db.fetchrow("select status, attempts, processed_at, provider, type from webhook_events")
    assert tuple(done or ())[:2] == ("success", 1)
    assert done["processed_at"] is not None
    assert (done["provider"], done["type"]) == ("sql", "unknown")
    assert await db.fetchval("select count(*) from onceward.work") == 0
    assert await db.fetchval("select outcome from onceward.attempts") == "success"


async def test_claims_may_be_limited_to_a_source(db: Database) -> None:
    other = "00000000-0000-0000-0000-000000000002"
    await db.execute(INSERT, ANYBODY, "a", {})
    await db.execute(INSERT, other, "b", {})
    assert (await claim(db, other))["event_id"] == "b"
    assert await claim(db, other) is None
    assert (await claim(db))["event_id"] == "a"


async def test_pending_is_retried_by_the_policy_and_ends_as_a_dead_letter(db: Database) -> None:
    await db.execute(INSERT, ANYBODY, "evt", {})
    for attempt in range(1, 6):
        await move_clock(db, 100 * attempt)
        row = await claim(db)
        assert row is not None, attempt
        await mark(db, row["id"], "pending", "no luck", row["lease"])
        if attempt < 5:
            assert await claim(db) is None, "it waits before it is tried again"
    row = await db.fetchrow("select status, attempts, error from webhook_events")
    assert tuple(row or ()) == ("dead_letter", 5, "no luck")
    assert await db.fetchval("select dead_reason from onceward.work") == "max_attempts_exceeded"


async def test_a_lost_lease_cannot_mark(db: Database) -> None:
    await db.execute(INSERT, ANYBODY, "evt", {})
    first = await claim(db)
    await db.execute("update webhook_events set status = 'pending'")
    second = await claim(db)
    with pytest.raises(asyncpg.PostgresError, match="no longer held"):
        await mark(db, first["id"], "success", lease=first["lease"])
    await mark(db, second["id"], "success", lease=second["lease"])
    with pytest.raises(asyncpg.PostgresError, match="not held"):
        await mark(db, first["id"], "dead_letter", "late", first["lease"])
    assert await db.fetchval("select status from webhook_events") == "success"


async def test_a_claim_expires(db: Database) -> None:
    await db.execute(INSERT, ANYBODY, "evt", {})
    first = await claim(db)
    await db.execute("update onceward.work set claimed_at = claimed_at - interval '16 minutes'")
    second = await claim(db)
    assert second["id"] == first["id"]
    assert second["lease"] != first["lease"]
    assert await db.fetchval("select error from webhook_events") is not None


async def test_a_claim_lasts_as_long_as_the_setting_of_the_nodes_says(office) -> None:
    here = await office(Onceward("t"))
    patient = Upkeep(here.db, here.inbox.catalog, here.engine.waker, options=UpkeepOptions(sql_claim_expiry_s=7200))
    await patient.start()
    await patient.stop()
    await here.db.execute(INSERT, ANYBODY, "slow", {})
    assert (await claim(here.db))["event_id"] == "slow"
    await here.db.execute("update onceward.work set claimed_at = claimed_at - interval '1 hour'")
    assert await claim(here.db) is None
    await here.db.execute("update onceward.work set claimed_at = claimed_at - interval '1 hour'")
    assert (await claim(here.db))["event_id"] == "slow"


async def test_update_to_pending_replays_at_once_and_keeps_the_event_id(db: Database) -> None:
    id = await db.fetchval(INSERT, ANYBODY, "evt", {})
    row = await claim(db)
    await mark(db, id, "dead_letter", "max_attempts_exceeded")
    assert await db.fetchval("select dead_reason from onceward.work") == "max_attempts_exceeded"
    await db.execute(
        "update webhook_events set status = 'pending', attempts = 0, last_attempt_at = null, error = null where id = $1",
        id,
    )
    again = await claim(db)
    assert (again["id"], again["event_id"]) == (id, row["event_id"])
    assert await db.fetchval("select attempts from webhook_events") == 1


async def test_update_ends_an_event(db: Database) -> None:
    for number, status in enumerate(("success", "failed", "dead_letter")):
        id = await db.fetchval(INSERT, ANYBODY, f"evt-{number}", {})
        await db.execute("update webhook_events set status = $1, error = 'by hand' where id = $2", status, id)
        assert await db.fetchval("select status from webhook_events where id = $1", id) == status
    assert await claim(db) is None
    outcomes = await db.fetch("select outcome from onceward.attempts order by work_id")
    assert [row["outcome"] for row in outcomes] == ["success", "failed", "dead_letter"]
    assert await db.fetchval("select count(*) from onceward.work") == 1


async def test_the_sql_worker_may_do_its_work_and_nothing_else(db: Database) -> None:
    async with db.acquire() as conn:
        await conn.execute("set role onceward_sql_worker")
        try:
            id = await conn.fetchval(INSERT, ANYBODY, "evt", {"a": 1})
            row = await conn.fetchrow("select * from webhook.claim_next_event()")
            assert row["id"] == id
            await conn.execute("select webhook.mark_event_result($1, 'success', null, $2)", id, row["lease"])
            assert await conn.fetchval("select status from webhook_events where id = $1", id) == "success"
            for forbidden in (
                "select * from onceward.sources",
                "delete from webhook_events",
                "select * from onceward.work",
            ):
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await conn.execute(forbidden)
        finally:
            await conn.execute("reset role")
        await conn.execute("set role onceward_app")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await conn.execute("select * from webhook.claim_next_event()")
        await conn.execute("reset role")


async def test_an_insert_for_a_source_with_handlers_reaches_the_handler(office) -> None:
    app = Onceward("shop")

    @app.on("stripe", "charge.succeeded")
    async def complete(event: Event, tx: Tx) -> str:
        return event.event_id

    here = await office(app)
    webhook_id = await here.source()
    await here.start_worker()
    await here.db.execute(INSERT, webhook_id, "evt-sql", {"type": "charge.succeeded", "data": {"object": {}}})
    seq = await here.db.fetchval("select seq from webhook_events")
    assert (await here.status(seq, "success"))["result"] == "evt-sql"
    assert await claim(here.db) is None
