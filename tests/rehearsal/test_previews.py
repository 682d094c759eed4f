"""The dashboard and the API rehearse in a process of their own, and only what the viewer may replay."""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator
from uuid import UUID

import aiohttp
import pytest

from onceward.db import Database
from onceward.process.process import Process
from onceward.rehearsal.preview import reference_of, spread
from onceward.trust.keys import create_key
from onceward.trust.sessions import link_for
from tests.rehearsal import kiosk, kiosk_app
from tests.web.operating import Client, client_for, started

DEAD = "update onceward.work set dead_reason = 'permanent', dead_at = now(), attempts = 3 where id = $1"


@pytest.fixture
async def process(database_url: str) -> AsyncIterator[Process]:
    process = await started(database_url, roles={"web"}, app=kiosk_app.app)
    yield process
    await process.stop()


async def key_of(db: Database, session: aiohttp.ClientSession, organization: UUID, scope: str) -> Client:
    async with db.transaction(role="engine") as tx:
        made = await create_key(tx, name=scope, organization=organization, scopes=[scope], actor="test")
    return Client(session, made.text, organization)


async def test_a_replay_is_rehearsed_before_it_is_approved(db: Database, process: Process) -> None:
    engine, organization = await kiosk.prepare(db, kiosk.make_app())
    event = await kiosk.arrive(db, organization, {"number": "V-1"}, type=kiosk.VISIT)
    await db.execute(DEAD, event)
    async with engine.transaction(organization=organization) as tx:
        await tx.send("kiosk-receipt", to={"email": "m@example.com"}, key="m", data={"number": "1"}, channel="email")
    message = await db.fetchval("select id from onceward.work where kind = 'message'")
    await db.execute(DEAD, message)
    assert process.web is not None
    async with aiohttp.ClientSession(process.web.url, cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        ours, viewer = [await key_of(db, session, organization, scope) for scope in ("operator", "viewer")]
        theirs, instance = await client_for(db, session, "theirs"), await client_for(db, session, scope="admin")
        assert (await viewer("POST", "/rehearsals", {"ids": [event]}))[0] == 403
        assert (await theirs("POST", "/rehearsals", {"ids": [event]}))[0] == 404
        assert (await ours("POST", "/rehearsals", {"ids": []}))[0] == 422
        status, answer = await ours("POST", "/rehearsals", {"ids": [event]})
        assert (status, answer["rehearsed"], answer["counts"]) == (200, 1, {"caused": 1})
        [shown] = answer["work"]
        assert shown["headline"] == "would cause 4 effects"
        assert shown["effects"]["journals"][0]["entries"][0]["amount"] == 500
        assert (await instance("POST", "/rehearsals", {"ids": [event]}))[0] == 200
        assert await db.fetchval("select count(*) from onceward.messages") == 1

        async with db.transaction(role="engine") as tx:
            await tx.execute("insert into onceward.users (email, name, admin) values ('a@example.com', 'A', true)")
            token = await link_for(tx, "a@example.com", actor="test")
        async with session.post("/login", data={"token": token}, allow_redirects=False) as reply:
            assert reply.status == 303
        async with session.get(f"/dashboard/dead-letters/replay?ids={event},{message}") as reply:
            page = await reply.text()
        for text in (
            "What would happen",
            "would cause 4 effects",
            "cash -&gt; sales 500 EUR",
            "Not rehearsed: 1 message or delivery",
        ):
            assert text in page, page
        async with session.get(f"/dashboard/rehearse/{event}") as reply:
            alone = await reply.text()
        assert "would cause 4 effects" in alone, alone
        async with session.get("/dashboard/rehearse/99") as reply:
            assert reply.status == 404
        fields = dict(re.findall(r'name="(csrf_token|ids|approval)" value="([^"]+)"', page))
        assert fields["ids"] == f"{message},{event}"
        late = await kiosk.arrive(db, organization, {"number": "V-2"}, event_id="late", type=kiosk.VISIT)
        await db.execute(DEAD, late)
        content, _, signature = fields["approval"].partition(".")
        for forged in (
            {"approval": f"{content}.{'0' * 64}"},
            {"approval": f"{base64.urlsafe_b64encode(b'[]').decode()}.{signature}"},
            {"ids": f"{event},{late}"},
        ):
            wrong = {**fields, "reason": "repaired", **forged}
            async with session.post("/dashboard/dead-letters/replay", data=wrong, allow_redirects=False) as reply:
                assert reply.status == 400, forged
        form = {**fields, "reason": "repaired"}
        async with session.post("/dashboard/dead-letters/replay", data=form, allow_redirects=False) as reply:
            assert reply.status == 303
    approved = await db.fetchrow("select * from onceward.audit_log where action = 'dead_letter.replay_approved'")
    assert approved is not None
    assert approved["reason"] == "repaired"
    assert approved["metadata"]["rehearsal"] == "1 of 1 rehearsed: 1 caused; 1 sends not rehearsed"
    dead = await db.fetch("select id from onceward.work where dead_reason is not null")
    assert [row["id"] for row in dead] == [late], "what died after the page was shown is not replayed"


def test_an_app_is_found_by_its_module_and_a_sample_is_spread() -> None:
    assert reference_of(kiosk_app.app) == "tests.rehearsal.kiosk_app:app"
    assert reference_of(kiosk.make_app()) is None
    assert spread(list(range(100)), 4) == [0, 25, 50, 75]
    assert spread([1, 2], 4) == [1, 2]
