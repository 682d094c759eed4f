"""Sources and events over HTTP, on real sockets: scopes, organizations, hostile input."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from pydantic import SecretStr

from onceward import Event, Onceward, Permanent, Tx
from onceward.db import Database
from onceward.providers.inbound import SourceConfig
from onceward.providers.registry import get_provider
from onceward.runtime import Runtime
from onceward.settings import Settings
from onceward.trust import create_organization
from onceward.trust.keys import create_key

from .conftest import SECRET, until

NEW_SECRET = "whsec_another_secret_of_the_tests_32"
KEY = "a key that is long enough for the tests"


def shop() -> Onceward:
    app = Onceward("shop")

    @app.on("stripe", "charge.succeeded")
    async def charge(event: Event[Any], tx: Tx) -> dict[str, bool]:  # pyright: ignore[reportUnusedFunction]
        await tx.execute("insert into effects values ($1)", event.id)
        return {"charged": True}

    @app.on("stripe", "charge.failed")
    async def failed(event: Event[Any], tx: Tx) -> dict[str, bool]:  # pyright: ignore[reportUnusedFunction]
        if await tx.fetchval("select broken from switch"):
            raise Permanent("the switch is off")
        await tx.execute("insert into effects values ($1)", event.id)
        return {"repaired": True}

    return app


TABLES = """
create table effects (event bigint); create table switch (broken boolean); insert into switch values (true);
grant all on effects, switch to onceward_app
"""


def settings(database_url: str) -> Settings:
    return Settings(
        database_url=SecretStr(database_url),
        secret_key=SecretStr(KEY),
        port=0,
        pool_min=1,
        pool_max=8,
        shutdown_grace_s=0.1,
        poll_interval_ms=50,
    )


@pytest.fixture
async def runtime(db: Database, database_url: str) -> AsyncIterator[Runtime]:
    await db.execute(TABLES)
    runtime = Runtime(shop(), settings(database_url))
    await runtime.start({"web", "worker"})
    yield runtime
    await runtime.stop()


class Client:
    """Somebody with a key."""

    def __init__(self, session: aiohttp.ClientSession, key: str) -> None:
        self._session = session
        self._headers = {"Authorization": f"Bearer {key}"}

    async def __call__(self, method: str, path: str, *, query: Any = None, **body: Any) -> tuple[int, Any]:
        sent = {"json": body} if method != "GET" else {}
        async with self._session.request(
            method, f"/api/v1{path}", headers=self._headers, params=query, **sent
        ) as response:
            if response.status >= 400:
                assert response.content_type == "application/problem+json"
            return response.status, await response.json(content_type=None)


class Sender:
    """A provider that posts to a running process."""

    def __init__(self, session: aiohttp.ClientSession, source: str, secret: str = SECRET) -> None:
        self._session = session
        self._path = f"/webhooks/{source}"
        self._config = SourceConfig(provider="stripe", secrets=(secret,))

    async def __call__(self, type: str = "charge.succeeded", **fields: Any) -> tuple[int, Any]:
        provider = get_provider("stripe")
        body = provider.encode(provider.sample(type, fields))
        headers = provider.sign(self._config, body, time.time())
        async with self._session.post(self._path, data=body, headers=headers) as response:
            return response.status, await response.json(content_type=None)


@pytest.fixture
async def session(runtime: Runtime) -> AsyncIterator[aiohttp.ClientSession]:
    assert runtime.web is not None
    async with aiohttp.ClientSession(runtime.web.url) as session:
        yield session


async def client_for(
    db: Database, session: aiohttp.ClientSession, slug: str | None = "ours", scope: str = "owner"
) -> Client:
    async with db.transaction(role="engine") as tx:
        id = None
        if slug is not None:
            row = await tx.fetchrow("select organization_id from onceward.organizations where slug = $1", slug)
            id = row["organization_id"] if row else (await create_organization(tx, slug, actor="test")).organization_id
        made = await create_key(tx, name="test", organization=id, scopes=[scope], actor="test")
    return Client(session, made.text)


async def settled(client: Client, seq: int, status: str) -> Any:
    async def look() -> Any:
        _, shown = await client("GET", f"/events/{seq}")
        return shown if shown["status"] == status else None

    return await until(look)


async def test_a_source_is_added_used_rotated_paused_and_resumed(db: Database, session: aiohttp.ClientSession) -> None:
    owner = await client_for(db, session)
    status, made = await owner("POST", "/sources", name="shop-stripe", provider="stripe", secrets=[SECRET])
    assert (status, made["mode"], made["paused_at"], made["origin"]) == (201, "ack", None, "stored")
    assert made["url"].endswith("/webhooks/shop-stripe")
    status, reply = await Sender(session, "shop-stripe")()
    assert status == 200
    await settled(owner, reply["id"], "success")

    assert (await Sender(session, "shop-stripe", NEW_SECRET)())[0] == 401
    rotated = await owner("POST", "/sources/shop-stripe/secret", secret=NEW_SECRET)
    assert rotated == (200, {"name": "shop-stripe", "live_secrets": 2})
    assert (await Sender(session, "shop-stripe", NEW_SECRET)())[0] == 200, "known as soon as it is answered"
    assert (await Sender(session, "shop-stripe")())[0] == 200, "the old one is believed for a while"
    assert (await owner("POST", "/sources/shop-stripe/secret", secret=NEW_SECRET, overlap_s=0))[1]["live_secrets"] == 1
    assert (await Sender(session, "shop-stripe")())[0] == 401

    sender = Sender(session, "shop-stripe", NEW_SECRET)
    status, paused = await owner("POST", f"/sources/{made['webhook_id']}/pause")
    assert status == 200
    assert (await owner("POST", "/sources/shop-stripe/pause"))[1]["paused_at"] == paused["paused_at"], "twice is once"
    _, parked = await sender()
    assert (await owner("GET", f"/events/{parked['id']}"))[1]["queue"] == "paused"
    assert (await owner("POST", "/sources/shop-stripe/resume"))[1]["paused_at"] is None
    await settled(owner, parked["id"], "success")
    actions = [row["action"] for row in (await owner("GET", "/audit", query={"entity_type": "source"}))[1]]
    assert actions == ["source.resumed", *["source.paused"] * 2, *["source.rotated"] * 2, "source.created"]


async def test_a_deleted_source_takes_nothing_more_and_its_events_stay(
    db: Database, session: aiohttp.ClientSession
) -> None:
    owner = await client_for(db, session)
    for name in ("wrong", "other"):
        assert (await owner("POST", "/sources", name=name, provider="stripe", secrets=[SECRET]))[0] == 201
    sender = Sender(session, "wrong")
    _, taken = await sender()
    await settled(owner, taken["id"], "success")

    await owner("POST", "/sources/wrong/pause")
    status, problem = await owner("DELETE", "/sources/wrong")
    assert (status, "resume it first" in problem["detail"]) == (409, True)
    await owner("POST", "/sources/wrong/resume")
    assert (await owner("DELETE", "/sources/wrong"))[0] == 204
    assert (await owner("DELETE", "/sources/wrong"))[0] == 404
    assert (await sender())[0] == 404, "known as soon as it is answered"
    assert [each["name"] for each in (await owner("GET", "/sources"))[1]] == ["other"]
    assert (await owner("POST", "/sources/wrong/secret", secret=NEW_SECRET))[0] == 404
    assert (await owner("GET", f"/events/{taken['id']}"))[1]["source"] == "wrong"
    assert await db.fetchval("select secrets from onceward.sources where name = 'wrong'") is None

    again = await owner("POST", "/sources", name="wrong", provider="stripe", secrets=[NEW_SECRET])
    assert again[0] == 201, "its name is free"
    assert (await Sender(session, "wrong", NEW_SECRET)())[0] == 200
    actions = {row["action"] for row in (await owner("GET", "/audit", query={"entity_type": "source"}))[1]}
    assert "source.deleted" in actions


async def test_secrets_are_never_given_back(db: Database, session: aiohttp.ClientSession) -> None:
    owner = await client_for(db, session)
    options = {"verify_token": "token-that-nobody-may-see"}
    body: dict[str, Any] = {"name": "wa", "provider": "whatsapp", "secrets": [SECRET], "options": options}
    answers = [
        await owner("POST", "/sources", **body),
        await owner("POST", "/sources", **body),
        await owner("POST", "/sources", **{**body, "name": "NO"}),
        await owner("POST", "/sources", **{**body, "name": "x", "secrets": [f" {SECRET}"]}),
        await owner("POST", "/sources", **{**body, "name": "x", "secrets": SECRET}),
        await owner("POST", "/sources", **{**body, "name": "x", "secrets": [[SECRET]]}),
        await owner("POST", "/sources", **{**body, "name": "x", SECRET: 1}),
        await owner("POST", "/sources/wa/secret", secret=f" {NEW_SECRET}"),
        await owner("POST", "/sources/wa/secret", secret=[NEW_SECRET]),
        await owner("POST", "/sources/wa/secret", secret=NEW_SECRET),
        await owner("GET", "/sources"),
        await owner("GET", "/sources/wa"),
        await owner("POST", "/sources/wa/pause"),
        await owner("GET", "/audit"),
    ]
    assert [status for status, _ in answers] == [201, 409, 422, 422, 422, 422, 422, 422, 422, 200, 200, 200, 200, 200]
    said = str([answer for n, (_, answer) in enumerate(answers) if n != 6])
    assert all(secret not in said for secret in (SECRET, NEW_SECRET, options["verify_token"]))


UNFIT: list[tuple[dict[str, Any], str]] = [
    ({"name": "payments"}, "name"),
    ({"name": "Big"}, "name"),
    ({"name": "x" * 64}, "name"),
    ({"name": "a\x00"}, "name"),
    ({"name": None}, "name"),
    ({"provider": "nobody"}, "provider"),
    ({"provider": "\ud800"}, "provider"),
    ({"secrets": []}, "secrets"),
    ({"secrets": [""]}, "secrets.0"),
    ({"secrets": ["a\x00b"]}, "secrets.0"),
    ({"secrets": ["\ud800"]}, "secrets.0"),
    ({"secrets": ["x" * 20_000]}, "secrets.0"),
    ({"secrets": [SECRET] * 11}, "secrets"),
    ({"mode": "later"}, "mode"),
    ({"options": {"nothing": 1}}, "options"),
    ({"options": {"a": "\x00"}}, "options"),
    ({"options": {"a": ["\ud800"]}}, "options"),
    ({"options": {"a": 2**70}}, "options"),
    ({"options": [1]}, "options"),
    ({"public_url": "ftp://x"}, "public_url"),
    ({"public_url": "https://x/" + "y" * 3000}, "public_url"),
    ({"tolerance_s": 0}, "tolerance_s"),
    ({"tolerance_s": 2**40}, "tolerance_s"),
    ({"rate_per_s": 0}, "rate_per_s"),
    ({"rate_per_s": -1}, "rate_per_s"),
    ({"rate_per_s": 5, "mode": "inline"}, "rate_per_s"),
    ({"max_body_bytes": 10}, "max_body_bytes"),
    ({"max_body_bytes": 1 << 40}, "max_body_bytes"),
    ({"retention_days": 0}, "retention_days"),
    ({"retention_days": 2**40}, "retention_days"),
    ({"webhook_id": "00000000-0000-4000-8000-00000000050a"}, "webhook_id"),
    ({"provider": "github", "mode": "inline"}, "mode"),
    ({"provider": "twilio"}, "public_url"),
]


async def test_a_source_that_cannot_be_is_refused_with_the_name_of_the_field(
    db: Database, session: aiohttp.ClientSession
) -> None:
    owner = await client_for(db, session)
    for changed, field in UNFIT:
        body = {"name": "fine", "provider": "stripe", "secrets": [SECRET], **changed}
        status, problem = await owner("POST", "/sources", **body)
        assert status == 422, (changed, problem)
        assert problem["errors"][0]["field"].startswith(f"body.{field}"), problem
    assert (await owner("GET", "/sources"))[1] == []


async def test_a_body_that_is_no_object_or_too_large_is_a_problem(
    db: Database, session: aiohttp.ClientSession, runtime: Runtime
) -> None:
    owner = await client_for(db, session)
    headers = {**owner._headers, "Content-Type": "application/json"}
    for body, wanted in (
        (b"", 422),
        (b"{", 422),
        (b"[]", 422),
        (b"null", 422),
        (b'{"name":"\xff"}', 400),
        (b"[" * 100_000, 400),
        (b'{"name":"' + b"x" * runtime.settings.max_body_bytes + b'"}', 413),
    ):
        for path in ("/sources", "/sources/x/secret", "/events/replay", "/events/1/replay"):
            async with session.post(f"/api/v1{path}", data=io.BytesIO(body), headers=headers) as response:
                assert response.content_type == "application/problem+json"
                assert response.status == wanted, (body[:20], path)


async def test_scopes_and_organizations_are_kept_apart(db: Database, session: aiohttp.ClientSession) -> None:
    owner, operator = await client_for(db, session), await client_for(db, session, scope="operator")
    viewer, theirs = await client_for(db, session, scope="viewer"), await client_for(db, session, "theirs")
    admin = await client_for(db, session, None, "admin")
    nobody = Client(session, "ow_nothing")
    source: dict[str, Any] = {"name": "ours", "provider": "stripe", "secrets": [SECRET]}
    assert (await operator("POST", "/sources", **source))[0] == 403
    assert (await nobody("POST", "/sources", **source))[0] == 401
    assert (await owner("POST", "/sources", **source))[0] == 201
    assert (await theirs("POST", "/sources", **source))[0] == 409
    assert (await admin("POST", "/sources", **{**source, "name": "platform"}))[1]["organization_id"] is None
    _, reply = await Sender(session, "ours")("charge.failed", id="evt_ours")
    seq = reply["id"]
    await settled(viewer, seq, "dead_letter")
    _, platform = await Sender(session, "platform")(id="evt_platform")

    for client in (viewer, operator, owner):
        assert [each["name"] for each in (await client("GET", "/sources"))[1]] == ["ours"]
        assert [each["seq"] for each in (await client("GET", "/events"))[1]] == [seq]
        assert (await client("GET", f"/events/{platform['id']}"))[0] == 404
        assert (await client("GET", "/events/evt_platform"))[0] == 404
        assert (await client("GET", "/sources/platform"))[0] == 404
    assert {"ours", "platform"} <= {each["name"] for each in (await admin("GET", "/sources"))[1]}
    assert len((await admin("GET", "/events"))[1]) == 2
    assert (await admin("GET", "/events/evt_ours"))[1]["seq"] == seq

    for path in (f"/events/{seq}/replay", "/events/replay"):
        assert (await viewer("POST", path, reason="x", **({} if "/events/r" not in path else {"ids": [seq]})))[0] == 403
    for verb in ("pause", "resume"):
        assert (await viewer("POST", f"/sources/ours/{verb}"))[0] == 403
        assert (await theirs("POST", f"/sources/ours/{verb}"))[0] == 404
        assert (await operator("POST", f"/sources/platform/{verb}"))[0] == 404
        assert (await operator("POST", f"/sources/ours/{verb}"))[0] == 200
    assert (await operator("POST", "/sources/ours/secret", secret=NEW_SECRET))[0] == 403
    assert (await theirs("POST", "/sources/ours/secret", secret=NEW_SECRET))[0] == 404
    assert (await theirs("GET", "/events"))[1] == []
    for ref in (seq, reply["id"], "evt_ours"):
        assert (await theirs("GET", f"/events/{ref}"))[0] == 404
        assert (await theirs("POST", f"/events/{ref}/replay", reason="mine"))[0] == 404
    assert (await theirs("POST", "/events/replay", ids=[seq], reason="mine"))[1]["done"] == []
    assert (await theirs("POST", "/events/replay", source="ours", reason="mine"))[1]["done"] == []
    assert (await admin("POST", "/sources/sql/secret", secret=NEW_SECRET))[0] == 422


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
    ], "one entry for each event, whoever asked"


async def test_another_node_hears_of_a_changed_source_at_once(
    db: Database, database_url: str, session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from onceward.inbox import Inbox

    plain = Inbox.__init__

    def rarely(self: Inbox, *arguments: Any, **options: Any) -> None:
        plain(self, *arguments, **{**options, "refresh_s": 3600.0})

    monkeypatch.setattr(Inbox, "__init__", rarely)
    other = Runtime(shop(), settings(database_url))
    await other.start({"web"})
    try:
        assert other.web is not None
        async with aiohttp.ClientSession(other.web.url) as elsewhere:
            owner = await client_for(db, session)
            await owner("POST", "/sources", name="one", provider="stripe", secrets=[SECRET])
            assert (await Sender(elsewhere, "one")())[0] == 200
            await owner("POST", "/sources/one/secret", secret=NEW_SECRET, overlap_s=0)

            async def refused() -> bool:
                return (await Sender(elsewhere, "one")())[0] == 401

            await until(refused, within_s=5)
            assert (await Sender(elsewhere, "one", NEW_SECRET)())[0] == 200
            await owner("POST", "/sources/one/pause")

            async def parked() -> bool:
                _, reply = await Sender(elsewhere, "one", NEW_SECRET)()
                return (await owner("GET", f"/events/{reply['id']}"))[1]["queue"] == "paused"

            await until(parked, within_s=5)
    finally:
        await other.stop()


async def test_live_secrets_are_bounded(db: Database, session: aiohttp.ClientSession) -> None:
    owner = await client_for(db, session)
    await owner("POST", "/sources", name="one", provider="stripe", secrets=[SECRET])
    for n in range(9):
        assert (await owner("POST", "/sources/one/secret", secret=f"{NEW_SECRET}{n}"))[0] == 200
    status, problem = await owner("POST", "/sources/one/secret", secret=NEW_SECRET)
    assert (status, problem["errors"][0]["field"]) == (422, "body.overlap_s")
    assert (await owner("POST", "/sources/one/secret", secret=NEW_SECRET, overlap_s=0))[1]["live_secrets"] == 1
    for bad in (-1, 1e12, "soon"):
        assert (await owner("POST", "/sources/one/secret", secret=SECRET, overlap_s=bad))[0] == 422
