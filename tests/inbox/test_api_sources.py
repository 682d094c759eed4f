"""Sources over HTTP, on real sockets: scopes, organizations, hostile input."""

from __future__ import annotations

import io
from typing import Any

import aiohttp
import pytest

from onceward.db import Database
from onceward.inbox import sources
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.testing import until
from onceward.trust import SecretBox
from onceward.web.settings import WebSettings
from tests.inbox.api import KEY, NEW_SECRET, Client, Sender, client_for, runtime, session, settings, settled, shop
from tests.inbox.conftest import SECRET

__all__ = ["runtime", "session"]


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
    assert (await Sender(session, "shop-stripe")())[0] == 200, "the old secret stays valid for a while"
    assert (await owner("POST", "/sources/shop-stripe/secret", secret=NEW_SECRET, overlap_s=0))[1]["live_secrets"] == 1
    assert (await Sender(session, "shop-stripe")())[0] == 401

    sender = Sender(session, "shop-stripe", NEW_SECRET)
    status, paused = await owner("POST", f"/sources/{made['webhook_id']}/pause")
    assert status == 200
    assert (await owner("POST", "/sources/shop-stripe/pause"))[1]["paused_at"] == paused["paused_at"], "twice is once"
    _, parked = await sender()
    assert (await owner("GET", f"/events/{parked['id']}"))[1]["paused"] is True
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
    counted = f'onceward_webhook_received_total{{provider="stripe",result="stored",webhook_id="{again[1]["webhook_id"]}"}} 1.0'
    async with session.get("/metrics") as reply:
        assert counted in await reply.text(), "not under the id of the one before"
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


async def test_a_body_that_is_not_an_object_or_is_too_large_is_a_problem(
    db: Database, session: aiohttp.ClientSession, runtime: Process
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
        (b'{"name":"' + b"x" * runtime.settings.of(WebSettings).max_body_bytes + b'"}', 413),
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


async def test_another_node_sees_a_changed_source_at_once(
    db: Database, database_url: str, session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from onceward.inbox import Inbox

    plain = Inbox.__init__

    def rarely(self: Inbox, *arguments: Any, **options: Any) -> None:
        plain(self, *arguments, **{**options, "refresh_s": 3600.0})

    monkeypatch.setattr(Inbox, "__init__", rarely)
    other = Process(shop(), settings(database_url), FEATURES)
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

            await until(refused, timeout_s=5)
            assert (await Sender(elsewhere, "one", NEW_SECRET)())[0] == 200
            await owner("POST", "/sources/one/pause")

            async def parked() -> bool:
                _, reply = await Sender(elsewhere, "one", NEW_SECRET)()
                return (await owner("GET", f"/events/{reply['id']}"))[1]["paused"]

            await until(parked, timeout_s=5)
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


async def test_names_that_handlers_use_belong_to_administrators(db: Database, session: aiohttp.ClientSession) -> None:
    """The owner of the source `payments-stripe` decides which payments the handlers of an app accept."""
    owner = await client_for(db, session)
    for name in ("payments-stripe", "payments-anything", "stripe"):  # `stripe` has a handler in this app
        status, problem = await owner("POST", "/sources", name=name, provider="stripe", secrets=[SECRET])
        assert (status, "administrator" in problem["detail"]) == (403, True), name
    assert await db.fetchval("select count(*) from onceward.sources where origin = 'stored'") == 0

    organization = await db.fetchval("select organization_id from onceward.organizations limit 1")
    async with db.transaction(role="engine") as tx:  # as an administrator does for one organization
        new = sources.NewSource(name="payments-stripe", provider="stripe", secrets=(SECRET,), organization=organization)
        await sources.add(tx, SecretBox([KEY]), new, actor="operator:cli")
    for method, path, body in (
        ("POST", "/sources/payments-stripe/secret", {"secret": NEW_SECRET}),
        ("POST", "/sources/payments-stripe/pause", {}),
        ("DELETE", "/sources/payments-stripe", {}),
    ):
        assert (await owner(method, path, **body))[0] == 403, path


async def test_the_payment_endpoint_does_not_fall_back_to_a_source_of_one_organization(
    db: Database, session: aiohttp.ClientSession
) -> None:
    await client_for(db, session)
    organization = await db.fetchval("select organization_id from onceward.organizations limit 1")
    async with db.transaction(role="engine") as tx:
        new = sources.NewSource(name="stripe", provider="stripe", secrets=(SECRET,), organization=organization)
        await sources.add(tx, SecretBox([KEY]), new, actor="operator:cli")
    assert (await Sender(session, "payments/stripe")())[0] == 404
    assert (await Sender(session, "stripe")())[0] == 200


async def test_a_request_from_an_address_that_is_not_listed_is_rejected(
    db: Database, session: aiohttp.ClientSession
) -> None:
    owner = await client_for(db, session)
    for name, addresses, expected in (("here", ["127.0.0.0/8", "::1"], 200), ("elsewhere", ["192.0.2.0/24"], 403)):
        options = {"addresses": addresses}
        made = await owner("POST", "/sources", name=name, provider="stripe", secrets=[SECRET], options=options)
        assert made[0] == 201
        assert (await Sender(session, name)())[0] == expected
    refused = await owner("POST", "/sources", name="x", provider="stripe", secrets=[SECRET], options={"addresses": "a"})
    assert refused[0] == 422
    assert "option addresses: 'a' is not an IP address" in str(refused[1])
