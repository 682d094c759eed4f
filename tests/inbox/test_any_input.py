"""Any request: never an internal error, never a 2xx without a row, never two effects."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onceward import Event, Onceward, Tx
from onceward.db import Database
from onceward.integration import integrations
from onceward.testing import drain
from onceward.webhooks.provider import Rejected
from onceward.webhooks.registry import PROVIDERS
from tests.inbox.conftest import Office, call

EFFECTS = "create table effects (event text primary key); grant all on effects to onceward_app"
NAMES = [name for name in PROVIDERS if name not in integrations().senders] + ["asana", "circleci", "dropbox"]
"""The providers that are code, and a few of those that are data (tests/senders has all of them)."""
OPTIONS: dict[str, dict[str, Any]] = {
    "generic": {"options": {"header": "x-signature", "retries": True}},
    "twilio": {"public_url": "https://hooks.example.com"},
    "none": {},
}
SECRETS = {
    "daily": "c2VjcmV0LW9mLXRoZS10ZXN0cw==",
    "standard": "whsec_c2VjcmV0LW9mLXRoZS10ZXN0cw==",
    "formbricks": "whsec_c2VjcmV0LW9mLXRoZS10ZXN0cw==",
}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
bodies = st.one_of(
    st.binary(max_size=300),
    json_values.map(lambda value: orjson.dumps(value, default=str) if _dumps(value) else b"[]"),
    st.fixed_dictionaries(
        {"id": st.text(min_size=1, max_size=20), "type": st.text(min_size=1, max_size=20)},
        optional={"data": json_values},
    ).map(lambda value: orjson.dumps(value) if _dumps(value) else b"{}"),
    st.sampled_from(
        [
            b'{"id":"a\\u0000b","type":"t"}',
            b'{"id":"e","type":"t","x":"\\u0000"}',
            b'{"id":"e2","type":"t","x":"\\ud800"}',
            b'{"id":"e3","type":"t","x":1e400}',
            b'{"id":"e4","type":"t","x":' + b"9" * 5000 + b"}",
            b'{"id":"e5","type":"t","x":1e-999999}',
        ]
    ),
)
header_values = st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=60)


def _dumps(value: Any) -> bool:
    try:
        orjson.dumps(value)
    except (TypeError, orjson.JSONEncodeError):
        return False
    return True


def counting() -> Onceward:
    app = Onceward("anything")

    @app.on("stripe", "t")
    async def count(event: Event, tx: Tx) -> str:
        await tx.execute("insert into effects values ($1)", event.event_id)
        return event.event_id

    return app


async def opened(db: Database) -> Office:
    # Without its loops: their jitter would disturb the random numbers that hypothesis counts on.
    here = Office(db, counting())
    await here.db.execute(EFFECTS)
    for provider in NAMES:
        if provider != "paypal":
            await here.source(
                provider, secret=SECRETS.get(provider, "a secret of the tests, long"), **OPTIONS.get(provider, {})
            )
    await here.source("inline", provider="stripe", mode="inline")
    return here


SETTINGS = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


async def test_any_bytes_and_headers_never_fail_on_our_side(db: Database) -> None:
    here = await opened(db)
    loop = asyncio.get_running_loop()

    async def check(body: bytes, path: str, headers: dict[str, str], signed: bool, query: str, method: str) -> None:
        before = await db.fetchval("select count(*) from onceward.webhook_events")
        name = path.rpartition("/")[2]
        given_headers = dict(headers)
        if signed and name in here.configs:
            with contextlib.suppress(Rejected):  # Twilio signs forms only
                given_headers |= here.signed(name, body, path=path)
        reply = await call(here.inbox, path, body, given_headers, query=query, method=method)
        assert reply.status < 500, (reply, path)
        after = await db.fetchval("select count(*) from onceward.webhook_events")
        if reply.status < 300 and method == "POST":
            answered = reply.json if reply.body[:1] == b"{" else {}
            known = answered.get("status") in ("accepted", "ok", "dead_letter", "failed", "success")
            probe = name == "daily" or (name == "slack" and b"url_verification" in body)
            assert after > before or known or probe or reply.status == 204, reply

    names = [*NAMES, "inline", "nobody"]

    @SETTINGS
    @given(
        bodies,
        st.sampled_from(
            [f"/webhooks/{name}" for name in names] + ["/webhooks/payments/stripe", "/webhooks/", "/webhooks/payments/"]
        ),
        st.dictionaries(
            st.sampled_from(
                ["content-type", "stripe-signature", "x-signature", "webhook-id", "user-agent", "x-github-event"]
            ),
            header_values,
        ),
        st.booleans(),
        st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=20),
        st.sampled_from(["POST", "POST", "POST", "GET", "PUT"]),
    )
    def any_request(body: bytes, path: str, headers: dict[str, str], signed: bool, query: str, method: str) -> None:
        asyncio.run_coroutine_threadsafe(check(body, path, headers, signed, query, method), loop).result(30)

    await asyncio.to_thread(any_request)
    await drain(here.engine)
    doubled = await db.fetch(
        "select event_id, webhook_id from onceward.webhook_events group by 1, 2 having count(*) > 1"
    )
    assert doubled == []


@pytest.mark.parametrize("mode", ["ack", "inline"])
async def test_any_order_and_duplication_causes_each_effect_once(db: Database, mode: str) -> None:
    here = await opened(db)
    await here.start()  # a duplicate of an event that is being handled waits for its result
    choose = random.Random(11)
    name = "stripe" if mode == "ack" else "inline"
    sent = [orjson.dumps({"id": f"evt_{number}", "type": "t"}) for number in range(12)]
    posts = sent * 4
    choose.shuffle(posts)
    await here.start_worker()
    replies = await asyncio.gather(*(here.send(body, name=name) for body in posts))
    assert {reply.status for reply in replies} == {200}
    for number in range(12):
        seq = await db.fetchval("select seq from onceward.webhook_events where event_id = $1", f"evt_{number}")
        await here.status(seq, "success")
    assert await db.fetchval("select count(*) from effects") == 12
    assert await db.fetchval("select count(*) from onceward.webhook_events") == 12
    await here.stop()


async def test_a_body_that_jsonb_cannot_hold_is_kept_raw_and_dead_lettered_without_harm_to_others(db: Database) -> None:
    here = await opened(db)
    bad = b'{"id":"evt_nul","type":"t","text":"a\\u0000b"}'
    good = [orjson.dumps({"id": f"evt_{number}", "type": "t"}) for number in range(20)]
    replies = await asyncio.gather(*(here.send(body) for body in [*good[:10], bad, *good[10:]]))
    assert {reply.status for reply in replies} == {200}
    row = await db.fetchrow("select * from onceward.webhook_events where event_id = 'evt_nul'")
    assert (row["status"], row["payload"], row["raw"]) == ("dead_letter", None, bad)
    assert row["error"].startswith("payload_invalid")
    assert await db.fetchval("select count(*) from onceward.work where dead_reason = 'payload_invalid'") == 1
    assert await drain(here.engine) == 20


async def test_a_row_that_postgresql_refuses_fails_alone(db: Database) -> None:
    here = await opened(db)
    await db.execute(
        "create function refuse() returns trigger language plpgsql as"
        " $$begin raise exception 'not this one' using errcode = '23514'; end$$;"
        "create trigger refuse before insert on onceward.webhook_events for each row when (new.event_id = 'evt_bad')"
        " execute function refuse()"
    )
    sent = [orjson.dumps({"id": name, "type": "t"}) for name in ("evt_1", "evt_bad", "evt_2", "evt_3")]
    replies = await asyncio.gather(*(here.send(body) for body in sent))
    assert [reply.status for reply in replies] == [200, 503, 200, 200]
    assert await db.fetchval("select count(*) from onceward.webhook_events") == 3
