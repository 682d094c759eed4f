"""The dashboard and the API rehearse in a process of their own, and only what the viewer may replay."""

from __future__ import annotations

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
    _, organization = await kiosk.prepare(db, kiosk.make_app())
    event = await kiosk.arrive(db, organization, {"number": "V-1"}, type=kiosk.VISIT)
    await db.execute(
        "update onceward.work set dead_reason = 'permanent', dead_at = now(), attempts = 3 where id = $1", event
    )
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
        assert await db.fetchval("select count(*) from onceward.messages") == 0

        async with db.transaction(role="engine") as tx:
            await tx.execute("insert into onceward.users (email, name, admin) values ('a@example.com', 'A', true)")
            token = await link_for(tx, "a@example.com", actor="test")
        async with session.post("/login", data={"token": token}, allow_redirects=False) as reply:
            assert reply.status == 303
        async with session.get(f"/dashboard/dead-letters/replay?ids={event}") as reply:
            page = await reply.text()
        for text in (
            "What would happen",
            "would cause 4 effects",
            "cash -&gt; sales 500 EUR",
            "1 of 1 rehearsed: 1 caused",
        ):
            assert text in page, page
        csrf = re.search(r'name="csrf_token" value="([^"]+)"', page)
        assert csrf is not None
        form = {
            "csrf_token": csrf[1],
            "ids": str(event),
            "reason": "repaired",
            "rehearsed": "1 of 1 rehearsed: 1 caused",
        }
        async with session.post("/dashboard/dead-letters/replay", data=form, allow_redirects=False) as reply:
            assert reply.status == 303
    approved = await db.fetchrow("select * from onceward.audit_log where action = 'dead_letter.replay_approved'")
    assert approved is not None
    assert (approved["reason"], approved["metadata"]) == ("repaired", {"rehearsal": "1 of 1 rehearsed: 1 caused"})


def test_an_app_is_found_by_its_module_and_a_sample_is_spread() -> None:
    assert reference_of(kiosk_app.app) == "tests.rehearsal.kiosk_app:app"
    assert reference_of(kiosk.make_app()) is None
    assert spread(list(range(100)), 4) == [0, 25, 50, 75]
    assert spread([1, 2], 4) == [1, 2]
