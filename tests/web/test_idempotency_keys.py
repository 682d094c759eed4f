"""A repeated POST with the same Idempotency-Key gets the first response, and nothing happens twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest

from onceward.db import Database
from onceward.process.process import Process
from onceward.web.idempotency import PRUNE
from tests.web.operating import client_for, started

KEY = {"name": "door", "scopes": ["viewer"]}


@pytest.fixture
async def process(database_url: str) -> AsyncIterator[Process]:
    process = await started(database_url, roles={"web"})
    yield process
    await process.stop()


@pytest.fixture
async def session(process: Process) -> AsyncIterator[aiohttp.ClientSession]:
    assert process.web is not None
    async with aiohttp.ClientSession(process.web.url) as session:
        yield session


async def created(db: Database) -> int:
    return await db.fetchval("select count(*) from onceward.api_keys where name = 'door'")


async def test_a_repeat_gets_the_stored_response_and_creates_nothing(
    db: Database, session: aiohttp.ClientSession
) -> None:
    ours, theirs = await client_for(db, session, "ours", "owner"), await client_for(db, session, "theirs", "owner")
    first = await ours("POST", "/keys", KEY, key="k1")
    assert first[0] == 201
    assert await ours("POST", "/keys", KEY, key="k1") == first
    assert ours.headers["idempotency-replayed"] == "true"
    assert await created(db) == 1
    status, problem = await ours("POST", "/keys", {**KEY, "name": "gate"}, key="k1")
    assert (status, problem["type"]) == (409, "key-reused")
    assert (await ours("POST", "/endpoints", {"url": "http://127.0.0.1:9/x", "events": ["*"]}, key="k1"))[0] == 409
    assert (await theirs("POST", "/keys", KEY, key="k1"))[0] == 201, "keys belong to one organization"
    assert await created(db) == 2
    body = await db.fetchval("select body from onceward.idempotency_keys where organization_id = $1", ours.organization)
    assert first[1]["secret"].encode() not in bytes(body), "the response contains a secret and must be encrypted"
    assert (await ours("POST", "/keys", KEY, key="x" * 256))[0] == 400


async def test_twins_at_the_same_moment_create_one(db: Database, session: aiohttp.ClientSession) -> None:
    clients = [await client_for(db, session, "ours", "owner")] * 8
    answers = await asyncio.gather(*(client("POST", "/keys", KEY, key="twin") for client in clients))
    assert {status for status, _ in answers} <= {201, 409}
    assert await created(db) == 1
    assert len({answer["secret"] for status, answer in answers if status == 201}) == 1
    assert (await clients[0]("POST", "/keys", KEY, key="twin"))[0] == 201


async def test_a_refused_request_releases_its_key(db: Database, session: aiohttp.ClientSession) -> None:
    ours = await client_for(db, session, "ours", "owner")
    assert (await ours("POST", "/keys", {"name": "door", "scopes": ["nonsense"]}, key="k"))[0] == 400
    assert (await ours("POST", "/keys", KEY, key="k"))[0] == 201
    viewer = await client_for(db, session, "others", "viewer")
    assert (await viewer("POST", "/keys", KEY, key="k"))[0] == 403
    assert await created(db) == 1


async def test_a_key_whose_process_stopped_stays_refused_and_expires_after_a_day(
    db: Database, session: aiohttp.ClientSession
) -> None:
    ours = await client_for(db, session, "ours", "owner")
    await ours("POST", "/keys", KEY, key="k")
    await db.execute("update onceward.idempotency_keys set status = null, body = null")  # stopped before it answered
    status, problem = await ours("POST", "/keys", KEY, key="k")
    assert (status, problem["type"]) == (409, "key-in-use")
    await db.execute("update onceward.idempotency_keys set created_at = now() - interval '25 hours'")
    assert (await ours("POST", "/keys", KEY, key="k"))[0] == 201
    assert await created(db) == 2
    await db.execute("update onceward.idempotency_keys set created_at = now() - interval '25 hours'")
    async with db.transaction(role="engine") as tx:
        await tx.execute(PRUNE)
    assert await db.fetchval("select count(*) from onceward.idempotency_keys") == 0
