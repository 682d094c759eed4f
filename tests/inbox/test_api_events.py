"""Events over HTTP, on real sockets: pages, filters, replay, hostile input."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp

from onceward.db import Database
from onceward.inbox.event_search import EventFilter, search
from tests.inbox.api import Sender, client_for, runtime, session, settled
from tests.inbox.conftest import SECRET

__all__ = ["runtime", "session"]


async def test_events_are_listed_by_page_and_by_every_filter(db: Database, session: aiohttp.ClientSession) -> None:
    owner = await client_for(db, session)
    for name in ("one", "two"):
        await owner("POST", "/sources", name=name, provider="stripe", secrets=[SECRET])
    made: list[int] = []
    for n in range(6):
        type = "charge.failed" if n % 3 == 0 else "charge.succeeded"
        made.append((await Sender(session, "one" if n < 4 else "two")(type))[1]["id"])
    for n, seq in enumerate(made):
        await settled(owner, seq, "dead_letter" if n % 3 == 0 else "success")

    async def numbers(**query: Any) -> list[int]:
        status, rows = await owner("GET", "/events", query=query)
        assert status == 200, rows
        return [row["seq"] for row in rows]

    assert await numbers() == made[::-1]
    pages: list[int] = []
    page = await numbers(limit=4)
    while page:
        pages += page
        page = await numbers(limit=4, before=page[-1])
    assert pages == made[::-1]
    assert await numbers(source="two") == made[:3:-1]
    assert await numbers(type="charge.failed") == [made[3], made[0]]
    assert await numbers(status="dead_letter") == [made[3], made[0]]
    assert await numbers(status=["dead_letter", "success"]) == made[::-1]
    assert await numbers(status="processing") == []
    assert await numbers(error="switch is off", source="one", limit=1) == [made[3]]
    _, shown = await owner("GET", f"/events/{made[2]}")
    assert await numbers(since=shown["received_at"]) == made[:1:-1]
    assert await numbers(until=shown["received_at"]) == made[1::-1]
    assert await numbers(since="2999-01-01T00:00:00") == []
    assert await numbers(type="' or true --") == []

    assert shown["payload"]["type"] == "charge.succeeded"
    assert (shown["result"], shown["attempts_made"][0]["outcome"]) == ({"charged": True}, "success")
    assert "signature" not in shown
    assert (await owner("GET", f"/events/{shown['id']}"))[1]["seq"] == made[2]
    assert (await owner("GET", f"/events/{shown['event_id']}"))[1]["seq"] == made[2]
    status, tree = await owner("GET", shown["consequences"].removeprefix("/api/v1"))
    assert (status, tree["id"]) == (200, made[2]) or (status, tree["id"]) == (200, str(made[2]))


async def test_what_cannot_be_looked_for_is_refused_with_the_name_of_the_field(
    db: Database, session: aiohttp.ClientSession
) -> None:
    owner = await client_for(db, session)
    for name, value in (
        ("source", "\x00"),
        ("source", "x" * 300),
        ("type", "a\x00"),
        ("status", "gone"),
        ("error", "\x00"),
        ("since", "yesterday"),
        ("since", "0001-01-01T00:00:00+14:00"),
        ("until", "9999-12-31T23:59:59-14:00"),
        ("before", "-1"),
        ("before", str(2**63)),
        ("before", "x"),
        ("limit", "0"),
        ("limit", "501"),
    ):
        status, problem = await owner("GET", "/events", query={name: value})
        assert status == 422, (name, value, problem)
        assert problem["errors"][0]["field"].startswith(f"query.{name}"), problem
    assert (await owner("GET", "/events?source=%ff"))[0] in {200, 422}
    for ref in ("0", str(2**63), "9" * 200, "²", "nothing", "00000000-0000-4000-8000-000000000000", "%2e%2e", "%27"):
        assert (await owner("GET", f"/events/{ref}"))[0] == 404, ref
    assert (await owner("GET", "/events/%00"))[0] == 422
    assert (await owner("GET", "/sources/%00"))[0] == 422
    assert (await owner("GET", "/sources/" + "x" * 5000))[0] == 404
    for field, body in (
        ("reason", {"source": "one"}),
        ("reason", {"source": "one", "reason": "   "}),
        ("reason", {"source": "one", "reason": "x" * 2000}),
        ("reason", {"source": "one", "reason": "\x00"}),
        ("ids", {"reason": "all of them"}),
        ("ids", {"reason": "all of them", "dry_run": True, "unhandled": True}),
        ("ids", {"reason": "x", "ids": []}),
        ("ids", {"reason": "x", "ids": list(range(1001))}),
        ("ids.0", {"reason": "x", "ids": [2**63]}),
        ("ids.0", {"reason": "x", "ids": ["'"]}),
        ("source", {"reason": "x", "source": "\ud800"}),
        ("limit", {"reason": "x", "source": "one", "limit": 1001}),
        ("limit", {"reason": "x", "source": "one", "limit": 0}),
        ("since", {"reason": "x", "since": "0001-01-01T00:00:00+14:00"}),
        ("everything", {"reason": "x", "everything": True}),
    ):
        status, problem = await owner("POST", "/events/replay", **body)
        assert status == 422, (body, problem)
        assert problem["errors"][0]["field"].startswith(f"body.{field}"), problem


async def test_replay_keeps_the_event_asks_for_a_reason_and_is_audited(
    db: Database, session: aiohttp.ClientSession
) -> None:
    owner = await client_for(db, session)
    await owner("POST", "/sources", name="one", provider="stripe", secrets=[SECRET])
    dead = [(await Sender(session, "one")("charge.failed"))[1]["id"] for _ in range(3)]
    good = (await Sender(session, "one")())[1]["id"]
    for seq in dead:
        await settled(owner, seq, "dead_letter")
    await settled(owner, good, "success")
    await db.execute("update switch set broken = false")

    assert (await owner("POST", f"/events/{dead[0]}/replay"))[0] == 422
    assert (await owner("POST", f"/events/{dead[0]}/replay", reason=" "))[0] == 422
    assert await owner("POST", "/events/replay", source="one", dry_run=True) == (
        200,
        {"done": dead, "skipped": {}, "dry_run": True},
    )
    assert await db.fetchval("select count(*) from onceward.webhook_events where status = 'dead_letter'") == 3
    status, done = await owner("POST", f"/events/{dead[0]}/replay", reason="repaired")
    assert (status, done["done"]) == (202, [dead[0]])
    await settled(owner, dead[0], "success")
    status, refused = await owner("POST", f"/events/{dead[0]}/replay", reason="repaired")
    assert status == 409
    assert "as a new event" in refused["detail"]

    asked = {"ids": [*dead, good, 10**12], "reason": "repaired"}
    answers = await asyncio.gather(*(owner("POST", "/events/replay", **asked) for _ in range(4)))
    assert {status for status, _ in answers} == {200}
    assert sorted(seq for _, answer in answers for seq in answer["done"]) == dead[1:], "each by one of the callers"
    for seq in dead:
        await settled(owner, seq, "success")
    assert sorted(row["event"] for row in await db.fetch("select event from effects")) == sorted([*dead, good])

    status, again = await owner("POST", f"/events/{good}/replay", reason="on purpose", as_new=True)
    assert status == 202
    [copy] = again["done"]
    shown = await settled(owner, copy, "success")
    assert shown["caused_by"] == good
    _, entries = await owner("GET", "/audit", query={"action": "event.replayed"})
    assert sorted((int(each["entity_id"]), each["reason"]) for each in entries) == [
        *((seq, "repaired") for seq in dead),
        (good, "on purpose"),
    ], "one entry for each event, for every caller"


async def test_filters_of_time_and_of_unfinished_events_read_a_part_of_the_events(db: Database) -> None:
    """Plans with 50,000 finished events, one dead letter and one event of the last minute."""
    await db.execute(
        "insert into onceward.webhook_events (event_id, provider, type, status, received_at)"
        " select 'evt_' || n, 'stripe', 't', 'success', now() - (50001 - n) * interval '1 minute' from generate_series(1, 50000) n"
    )
    dead = await db.fetchval(
        "insert into onceward.webhook_events (event_id, provider, type, status) values ('evt_dead', 'stripe', 't', 'dead_letter')"
        " returning seq"
    )
    await db.execute(
        "insert into onceward.work (id, kind, task, queue, sort_at, dead_reason, dead_at)"
        " values ($1, 'event', 'stripe/t', 'events', now(), 'permanent', now()) on conflict do nothing",
        dead,
    )
    await db.execute("vacuum analyze onceward.webhook_events, onceward.work")

    async def pages(criteria: EventFilter) -> tuple[list[str], int | None, int]:
        async with db.acquire() as conn:
            await conn.execute("select pg_stat_force_next_flush()")
            before = await conn.fetchval(READ)
            page = await search(conn, criteria, limit=10, most=11_000)
            await conn.execute("select pg_stat_force_next_flush()")
            return [each.event_id for each in page.events], page.next, await conn.fetchval(READ) - before

    names, after, read = await pages(EventFilter(statuses=["dead_letter"]))
    assert (names, after, read < 1000) == (["evt_dead"], None, True), read
    recently = datetime.now(UTC) - timedelta(minutes=1)
    names, after, read = await pages(EventFilter(since=recently, type="none"))
    assert (names, after, read < 2000) == ([], None, True), read
    for unbounded in (
        EventFilter(type="none"),
        EventFilter(source="none"),
        EventFilter(statuses=["failed"]),
        EventFilter(error="none"),
        EventFilter(since=recently - timedelta(days=30), type="none"),
    ):
        names, after, read = await pages(unbounded)
        assert (names, after, read < 25_000) == ([], dead - 11_000 + 1, True), f"{unbounded}: {read}, {after}"


READ = """
select coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) from pg_stat_user_tables
 where schemaname = 'onceward' and relname = 'webhook_events'
"""
