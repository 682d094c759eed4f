"""Keys that may do one thing only, use some apps, sources or addresses only; and what is recorded about them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import aiohttp
import pytest
from structlog.testing import capture_logs

from onceward.db import Database
from onceward.inbox.sources import NewSource, add
from onceward.trust import NotAllowed, NotAuthenticated, TrustError
from onceward.trust.identity import KeyLimits
from onceward.trust.key_restrictions import KeyRestrictions, allows
from onceward.trust.keys import authenticate_key, create_key, forget_old_addresses
from onceward.trust.secrets import SecretBox
from onceward.trust.security_events import ALTOGETHER, PER_SUBJECT, SecurityLog
from tests.trust.conftest import Two
from tests.trust.signing_in import running

EVENT = """
insert into onceward.webhook_events (webhook_id, event_id, organization_id, provider, type, payload, status)
values ($1, $2, $3, 'stripe', 'x', '{}', 'success') returning seq
"""


async def make(db: Database, two: Two, *scopes: str, **restrictions: list[str]) -> str:
    async with db.transaction(role="engine") as tx:
        made = await create_key(
            tx,
            name="+".join([*scopes, *restrictions]),
            organization=two.a,
            scopes=scopes,
            restrictions=KeyRestrictions.checked(**restrictions),
            actor="test",
        )
    return made.text


async def test_a_key_does_only_what_it_was_created_for(database_url: str, db: Database, two: Two) -> None:
    seqs: dict[str, int] = {}
    async with db.transaction(role="engine") as tx:
        for name in ("shop", "bank"):
            source = NewSource(name=name, provider="stripe", secrets=("whsec_" + "x" * 32,), organization=two.a)
            added = await add(tx, SecretBox(["k" * 40]), source, actor="test")
            seqs[name] = await tx.fetchval(EVENT, added.webhook_id, f"evt_{name}", two.a)
    keys = {
        "publish": await make(db, two, "publish"),
        "replay": await make(db, two, "replay"),
        "app": await make(db, two, "operator", apps=["ticketing"]),
        "source": await make(db, two, "operator", sources=["shop"]),
        "elsewhere": await make(db, two, "owner", addresses=["203.0.113.0/24"]),
        "here": await make(db, two, "viewer", addresses=["127.0.0.0/8"]),
    }
    event, dry = {"type": "unknown.type", "data": {}}, {"dry_run": True}
    async with running(database_url) as url, aiohttp.ClientSession() as http:

        async def status(who: str, method: str, path: str, body: Any = None) -> int:
            headers = {"Authorization": f"Bearer {keys[who]}", "Accept": "text/event-stream, application/json"}
            async with http.request(method, f"{url}{path}", headers=headers, json=body) as reply:
                return reply.status

        for who in keys:
            assert await status(who, "GET", "/api/v1/me") == (403 if who == "elsewhere" else 200)
        assert await status("publish", "POST", "/api/v1/publish", event) == 422, "allowed; the type is not known"
        assert await status("replay", "POST", "/api/v1/publish", event) == 403
        assert await status("publish", "GET", "/api/v1/events") == 403
        assert await status("publish", "POST", "/api/v1/events/replay", {"source": "shop", **dry}) == 403
        assert await status("replay", "POST", "/api/v1/events/replay", {"source": "shop", **dry}) == 200
        for path in ("/api/v1/events", "/api/v1/jobs", "/api/v1/keys", "/dashboard/keys", "/", "/api/v1/ticketingx"):
            assert await status("app", "GET", path) in (403, 404), path
        assert await status("here", "GET", "/api/v1/events") == 200
        # One source: its events, and the source itself.
        assert await status("source", "GET", "/api/v1/events?source=shop") == 200
        assert await status("source", "GET", "/api/v1/events?source=bank") == 403
        assert await status("source", "GET", "/api/v1/events") == 403
        assert await status("source", "GET", f"/api/v1/events/{seqs['shop']}") == 200
        assert await status("source", "GET", f"/api/v1/events/{seqs['bank']}") == 404
        assert await status("source", "POST", "/api/v1/events/replay", {"ids": [seqs["bank"]], **dry}) == 403
        assert await status("source", "POST", f"/api/v1/events/{seqs['bank']}/replay", {"reason": "x"}) == 404
        assert await status("source", "GET", "/api/v1/sources/shop") == 200
        for path in ("/api/v1/sources", "/api/v1/sources/bank", f"/api/v1/trace/{seqs['shop']}", "/api/v1/messages"):
            assert await status("source", "GET", path) == 403, path
        # Live queries know no such limits, so these keys cannot use them.
        for who in ("publish", "app", "source", "elsewhere"):
            assert await status(who, "GET", "/live/sse?query=dashboard.part") in (401, 403), who
    refused = await db.fetch(
        "select actor, organization_id, metadata from onceward.audit_log where action = 'access.refused'"
    )
    assert {row["organization_id"] for row in refused} == {two.a}
    assert len([row for row in refused if row["actor"] == "key:operator+sources"]) == PER_SUBJECT
    assert any(row["metadata"]["route"] == "GET /api/v1/events" for row in refused)


async def test_a_use_from_a_new_address_is_recorded_once(db: Database, two: Two) -> None:
    key = await make(db, two, "viewer")

    async def used() -> list[str]:
        entries = (
            "select metadata->>'address' from onceward.audit_log where action = 'key.used_from_new_address' order by id"
        )
        return [row[0] for row in await db.fetch(entries)]

    async with db.acquire() as conn:
        for address in ("203.0.113.7", "203.0.113.7", "198.51.100.1", "198.51.100.1", "203.0.113.7"):
            await authenticate_key(conn, key, client=address)
        assert await used() == ["198.51.100.1"], "the first address is not news"
        for last in range(40):
            await authenticate_key(conn, key, client=f"192.0.2.{last}")
        assert len(await used()) == 19, "a key whose addresses always change cannot fill the log"
        await db.execute("update onceward.key_addresses set first_used_at = first_used_at - interval '100 days'")
        await forget_old_addresses(conn)
        assert await db.fetchval("select count(*) from onceward.key_addresses") == 0
        limited = await make(db, two, "viewer", addresses=["198.51.100.0/24", "2001:db8::/32"])
        for address in ("198.51.100.9", "::ffff:198.51.100.9", "2001:db8::1"):
            await authenticate_key(conn, limited, client=address)
        for address in ("203.0.113.7", "unknown", "2001:db9::1"):
            with pytest.raises(NotAllowed, match="address"):
                await authenticate_key(conn, limited, client=address)


async def test_strangers_cannot_fill_the_audit_log(db: Database) -> None:
    log = SecurityLog(db)
    for number in range(ALTOGETHER * 2):
        for _ in range(PER_SUBJECT + 1):
            await log.record("login.failed", subject=f"client {number % 30}", actor="stranger", metadata={})
    assert await db.fetchval("select count(*) from onceward.audit_log") == ALTOGETHER


def test_restrictions_are_checked_and_written_in_one_form() -> None:
    assert KeyRestrictions.checked([" b ", "a", ""], [], ["203.0.113.7", "2001:DB8::/32"]) == KeyRestrictions(
        ("a", "b"), (), ("2001:db8::/32", "203.0.113.7/32")
    )
    for wrong in ({"apps": ["../x"]}, {"sources": ["a b"]}, {"addresses": ["203.0.113.7/24"]}, {"addresses": ["x"]}):
        with pytest.raises(TrustError, match=next(iter(wrong))):
            KeyRestrictions.checked(**wrong)
    assert allows((), "anything")
    limits = KeyLimits(frozenset({"ticketing"}), frozenset())
    assert limits.allow("/api/v1/ticketing/scan")
    for path in ("/api/v1/ticketing2", "/x/api/v1/events", "/api/v1/events", "/api/v1/ticketing/../keys", "/"):
        assert limits.allow(path) == (path == "/api/v1/ticketing/../keys"), path


async def test_a_key_that_expires_soon_is_announced_once_a_day_and_then_ends(db: Database, two: Two) -> None:
    text = await make(db, two, "viewer")
    set_expiry = "update onceward.api_keys set expires_at = now() + $1::interval, last_used_at = $2"
    today, yesterday = "select now()", "select now() - interval '1 day'"
    for left_days, last_used, announced in ((15, yesterday, 0), (13, yesterday, 1), (13, today, 0)):
        await db.execute(set_expiry, timedelta(days=left_days), await db.fetchval(last_used))
        async with db.acquire() as conn:
            with capture_logs() as lines:
                await authenticate_key(conn, text, client="198.51.100.7")
        found = [line for line in lines if line["event"] == "key.expires_soon"]
        assert len(found) == announced, (left_days, last_used)
        assert text not in str(found)
    await db.execute(set_expiry, timedelta(seconds=-1), None)
    async with db.acquire() as conn:
        with pytest.raises(NotAuthenticated, match="is expired"):
            await authenticate_key(conn, text, client="198.51.100.7")
