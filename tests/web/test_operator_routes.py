"""Dead letters, jobs, queues, schedules and messages over HTTP: the same verbs and the same audit as the command line."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from onceward.db import Database
from onceward.process.process import Process
from onceward.testing import until
from tests.web.operating import Client, client_for, started


@pytest.fixture
async def process(database_url: str) -> AsyncIterator[Process]:
    process = await started(database_url, roles={"web", "worker", "scheduler"})
    yield process
    await process.stop()


@pytest.fixture
async def session(process: Process) -> AsyncIterator[aiohttp.ClientSession]:
    assert process.web is not None
    async with aiohttp.ClientSession(process.web.url) as session:
        yield session


async def audited(db: Database, action: str) -> list[tuple[str, str | None]]:
    rows = await db.fetch("select entity_id, reason from onceward.audit_log where action = $1 order by id", action)
    return [(row["entity_id"], row["reason"]) for row in rows]


async def enqueue(process: Process, client: Client, task: str, order: int) -> int:
    async with process.context.engine.transaction(organization=client.organization) as tx:
        return await tx.fetchval("select onceward.enqueue($1, $2)", task, {"order": order})


async def dead(process: Process, client: Client, count: int) -> list[int]:
    """Make some dead letters and return their ids, newest first."""
    for order in range(count):
        await enqueue(process, client, "fails", order)

    async def listed() -> Any:
        letters = (await client("GET", "/dead-letters?kind=job&task=fails"))[1]
        return letters if len(letters) == count else None

    return [letter["id"] for letter in await until(listed)]


async def test_dead_letters_are_found_shown_replayed_and_discarded(
    db: Database, process: Process, session: aiohttp.ClientSession
) -> None:
    ours, theirs = await client_for(db, session, "ours"), await client_for(db, session, "theirs")
    ids = await dead(process, ours, 3)
    assert (await theirs("GET", "/dead-letters"))[1] == []
    assert len((await ours("GET", f"/dead-letters?before={ids[0]}&limit=1"))[1]) == 1
    assert (await ours("GET", "/dead-letters?error=TimeoutError"))[1] == []
    [group] = (await ours("GET", "/dead-letters/groups"))[1]
    assert (group["task"], group["reason"], group["count"]) == ("fails", "permanent", 3)
    status, letter = await ours("GET", f"/dead-letters/{ids[0]}")
    assert (status, letter["reason"], letter["attempts"]) == (200, "permanent", 1)
    assert "cannot be packed" in letter["history"][0]["error"]["message"]
    assert (await theirs("GET", f"/dead-letters/{ids[0]}"))[0] == 404

    assert (await ours("POST", "/dead-letters/replay", {"reason": "x"}))[0] == 422, "a filter is required"
    assert (await ours("POST", "/dead-letters/replay", {"task": "fails"}))[0] == 422, "a reason is required"
    assert (await ours("POST", "/dead-letters/replay", {"tsk": "fails", "reason": "x"}))[0] == 422
    status, dry = await ours("POST", "/dead-letters/replay", {"task": "fails", "dry_run": True, "limit": 2})
    assert (status, dry) == (200, {"done": ids[:2], "skipped": {}, "dry_run": True})
    assert await audited(db, "dead_letter.replay") == []
    assert (await theirs("POST", "/dead-letters/replay", {"ids": ids, "reason": "x"}))[1]["done"] == []
    assert (await theirs("POST", f"/dead-letters/{ids[0]}/discard", {"reason": "x"}))[0] == 404

    status, one = await ours("POST", f"/dead-letters/{ids[0]}/replay", {"reason": "packed by hand"})
    assert (status, one["done"]) == (200, [ids[0]])
    assert await audited(db, "dead_letter.replay") == [(str(ids[0]), "packed by hand")]
    status, rest = await ours("POST", "/dead-letters/discard", {"ids": ids[1:], "reason": "test orders"})
    assert (status, sorted(rest["done"])) == (200, sorted(ids[1:]))
    assert {reason for _, reason in await audited(db, "dead_letter.discard")} == {"test orders"}


async def test_jobs_are_listed_shown_and_cancelled(
    db: Database, process: Process, session: aiohttp.ClientSession
) -> None:
    ours, theirs = await client_for(db, session, "ours"), await client_for(db, session, "theirs")
    admin = await client_for(db, session, scope="admin")
    assert (await ours("POST", "/queues/default/pause", {}))[0] == 403
    assert (await admin("POST", "/queues/default/pause", {"reason": "a test"}))[1]["paused"] is True
    id = await enqueue(process, ours, "packs", 7)
    [row] = (await ours("GET", "/jobs?task=packs"))[1]
    assert (row["id"], row["queue"]) == (id, "default")
    assert (await ours("GET", f"/jobs/{id}"))[1]["args"] == {"order": 7}
    assert (await theirs("GET", f"/jobs/{id}"))[0] == 404
    assert (await theirs("POST", f"/jobs/{id}/cancel", {}))[0] == 404
    # A worker that read the queue before the pause may have claimed the job; it gives the job back.
    status, answer = await ours("POST", f"/jobs/{id}/cancel", {"reason": "withdrawn"})
    assert (status, answer["outcome"]) == (200, "cancelled")
    assert (await ours("POST", f"/jobs/{id}/cancel", {}))[0] == 409
    assert await audited(db, "work.cancel") == [(str(id), "withdrawn")]
    queues = {each["queue"]: each for each in (await admin("GET", "/queues"))[1]}
    assert queues["default"]["paused_at"] is not None
    assert (await admin("POST", "/queues/default/resume"))[1] == {"queue": "default", "paused": False}
    assert len((await admin("GET", "/workers"))[1]) == 1
    assert await audited(db, "queue.pause") == [("default", "a test")]
    assert len(await audited(db, "queue.resume")) == 1


async def test_schedules_are_listed_paused_resumed_and_run(db: Database, session: aiohttp.ClientSession) -> None:
    admin, ours = await client_for(db, session, scope="admin"), await client_for(db, session, "ours", "owner")
    assert (await ours("GET", "/schedules"))[0] == 403
    assert [each["name"] for each in (await admin("GET", "/schedules"))[1]] == ["sweep"]
    assert (await admin("POST", "/schedules/sweep/pause"))[1]["paused"] is True
    [row] = (await admin("GET", "/schedules"))[1]
    assert (row["paused_at"] is not None, row["next_at"]) == (True, None)
    assert (await admin("POST", "/schedules/sweep/resume"))[1]["paused"] is False
    status, created = await admin("POST", "/schedules/sweep/run")
    assert status == 202

    async def finished() -> bool:
        runs = (await admin("GET", "/schedules/sweep/runs"))[1]
        return [(each["id"], each["status"]) for each in runs if each["origin"] == "operator"] == [
            (created["runs"][0], "success")
        ]

    await until(finished)
    period = {"since": "2026-01-01T00:00:00Z", "until": "2026-01-01T03:00:00Z"}
    assert len((await admin("POST", "/schedules/sweep/backfill", period))[1]["runs"]) == 3
    assert (await admin("POST", "/schedules/nothing/run"))[0] == 404
    assert (await admin("POST", "/schedules/nothing/pause"))[0] == 404
    for action in ("paused", "resumed", "run", "backfilled"):
        assert [entry for entry, _ in await audited(db, f"schedule.{action}")] == ["sweep"], action


async def test_messages_of_unknown_outcome_are_resolved_together(
    db: Database, process: Process, session: aiohttp.ClientSession
) -> None:
    ours, theirs = await client_for(db, session, "ours"), await client_for(db, session, "theirs")
    at = await db.fetchval("select now() + interval '1 day'")
    for key in ("a", "b"):
        async with process.context.engine.transaction(organization=ours.organization) as tx:
            to, data = {"email": "ada@example.org"}, {"title": "t", "body": "b"}
            await tx.send("notification", to=to, key=key, data=data, not_before=at)
    await db.execute("delete from onceward.work where kind = 'message'")
    await db.execute("update onceward.messages set status = 'unknown', sending_since = now()")
    ids = [row["id"] for row in await db.fetch("select id from onceward.messages order by id")]

    async def resolve(client: Client, **body: Any) -> tuple[int, Any]:
        return await client("POST", "/messages/resolve", {"verdict": "sent", **body})

    status, problem = await resolve(ours, reason="no filter")
    assert (status, problem["errors"][0]["field"]) == (422, "body.ids")
    status, problem = await resolve(ours, channel="email")
    assert (status, problem["errors"][0]["field"]) == (422, "body.reason")
    assert (await resolve(ours, channel="email", verdict="lost"))[0] == 422
    shown = {"verdict": "sent", "done": ids, "skipped": [], "dry_run": True}
    assert await resolve(ours, channel="email", dry_run=True) == (200, shown)
    assert (await resolve(theirs, ids=ids, reason="not mine"))[1]["done"] == []
    assert (await resolve(ours, ids=ids, limit=1, reason="in the log"))[1]["done"] == ids[:1]
    assert (await resolve(ours, template="notification", verdict="resend", reason="not in it"))[1]["done"] == ids[1:]
    assert await audited(db, "message.sent") == [(str(ids[0]), "in the log")]
    assert await audited(db, "message.resend") == [(str(ids[1]), "not in it")]


async def test_messages_are_listed_shown_and_cancelled(
    db: Database, process: Process, session: aiohttp.ClientSession
) -> None:
    ours, theirs = await client_for(db, session, "ours"), await client_for(db, session, "theirs")
    async with process.context.engine.transaction(organization=ours.organization) as tx:
        await tx.send(
            "notification",
            to={"email": "ada@example.org"},
            key="later",
            data={"title": "t", "body": "b"},
            not_before=await tx.fetchval("select now() + interval '1 day'"),
        )
    [row] = (await ours("GET", "/messages?channel=email&status=pending"))[1]
    assert "address" not in row
    assert (await theirs("GET", "/messages"))[1] == []
    assert (await ours("GET", f"/messages/{row['id']}"))[1]["data"]["title"] == "t"
    assert (await theirs("POST", f"/messages/{row['id']}/cancel", {}))[0] == 404
    assert (await ours("POST", f"/messages/{row['id']}/resolve", {"verdict": "sent", "reason": "seen"}))[0] == 409
    assert (await ours("POST", f"/messages/{row['id']}/cancel", {"reason": "withdrawn"}))[1]["outcome"] == "cancelled"
    assert (await ours("POST", f"/messages/{row['id']}/cancel", {}))[0] == 409
    assert await audited(db, "message.cancel") == [(str(row["id"]), "withdrawn")]
