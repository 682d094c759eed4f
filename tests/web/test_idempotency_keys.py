"""A repeated POST with the same Idempotency-Key gets the first response, and nothing happens twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import jwt
import pytest
from pydantic import SecretStr

from onceward.db import Database
from onceward.process.process import Process
from onceward.web.idempotency import PRUNE
from tests.web.operating import Client, client_for, started

JWT_SECRET = "a secret of the tests with at least 32 bytes"
KEY = {"name": "door", "scopes": ["viewer"]}


@pytest.fixture
async def process(database_url: str) -> AsyncIterator[Process]:
    process = await started(database_url, roles={"web"}, jwt_secret=SecretStr(JWT_SECRET))
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
    assert await ours("POST", "/keys", KEY, key="k1") == (201, {**first[1], "secret": None}), "secrets are not stored"
    assert ours.headers["idempotency-replayed"] == "true"
    assert ours.headers["idempotency-withheld"] == "secret"
    assert await created(db) == 1
    status, problem = await ours("POST", "/keys", {**KEY, "name": "gate"}, key="k1")
    assert (status, problem["type"]) == (409, "key-reused")
    assert (await ours("POST", "/endpoints/portal", {}, key="k1"))[0] == 201, "keys belong to one path"
    assert (await ours("POST", "/endpoints/portal", {}, key="k1"))[1]["url"] is None
    assert (await theirs("POST", "/keys", KEY, key="k1"))[0] == 201, "keys belong to one organization"
    assert await created(db) == 2
    body = await db.fetchval("select body from onceward.idempotency_keys where organization_id = $1", ours.organization)
    assert b"door" not in bytes(body), "stored responses are encrypted"
    assert (await ours("POST", "/keys", KEY, key="x" * 256))[0] == 400


async def test_twins_at_the_same_moment_create_one(db: Database, session: aiohttp.ClientSession) -> None:
    clients = [await client_for(db, session, "ours", "owner")] * 8
    answers = await asyncio.gather(*(client("POST", "/keys", KEY, key="twin") for client in clients))
    assert {status for status, _ in answers} <= {201, 409}
    assert await created(db) == 1
    assert len([answer for status, answer in answers if status == 201 and answer["secret"] is not None]) == 1
    assert (await clients[0]("POST", "/keys", KEY, key="twin"))[0] == 201


async def test_a_key_belongs_to_one_caller_of_the_organization(db: Database, session: aiohttp.ClientSession) -> None:
    ours = await client_for(db, session, "ours", "owner")
    first = await ours("POST", "/keys", KEY, key="k")
    other = Client(session, (await ours("POST", "/keys", {"name": "other", "scopes": ["owner"]}))[1]["secret"])
    second = await other("POST", "/keys", {**KEY, "scopes": ["operator"]}, key="k")
    assert second[0] == 201, "another caller's key neither answers nor blocks"
    assert "idempotency-replayed" not in other.headers
    assert second[1]["key"]["prefix"] != first[1]["key"]["prefix"]
    claims = {"sub": "ada", "organization_id": str(ours.organization), "exp": 2**33}
    ada, eve = (Client(session, jwt.encode({**claims, "sub": sub}, JWT_SECRET, "HS256")) for sub in ("ada", "eve"))
    for user in (ada, eve):
        assert (await user("POST", "/inbox/read", {"up_to": 1}, key="k"))[0] == 200
        assert "idempotency-replayed" not in user.headers
    assert (await ada("POST", "/inbox/read", {"up_to": 1}, key="k"))[0] == 200
    assert ada.headers["idempotency-replayed"] == "true"


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
