"""Where sources come from, whom they act for, and what the senders with their own ways need."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from onceward import Event, Onceward, Tx
from onceward.db import Database
from onceward.inbox import Inbox, environment
from onceward.inbox.sources import NewSource, add
from onceward.testing import drain
from onceward.trust import create_organization
from onceward.webhooks.provider import ConfigError
from tests.inbox.conftest import BOX, SECRET, Office, call


def test_the_environment_names_sources() -> None:
    found = environment.read(
        {
            "ONCEWARD_SOURCE_STRIPE_SECRET": "whsec_1, whsec_2",
            "ONCEWARD_SOURCE_STRIPE_EU_SECRET": "three",
            "ONCEWARD_SOURCE_STRIPE_EU_PROVIDER": "stripe",
            "ONCEWARD_SOURCE_STRIPE_EU_MODE": "inline",
            "PATH": "irrelevant",
        }
    )
    assert [(each.name, each.provider, len(each.secrets), each.values["mode"]) for each in found] == [
        ("stripe", "stripe", 2, "ack"),
        ("stripe-eu", "stripe", 1, "inline"),
    ]
    assert "whsec" not in repr(found)


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("ONCEWARD_SOURCE_ACME_SECRET", "x", "_PROVIDER='acme' is not known"),
        ("ONCEWARD_SOURCE_STRIPE_SECRETS", "x", "must end in"),
        ("ONCEWARD_SOURCE_STRIPE_OPTIONS", "{", "not JSON"),
        ("ONCEWARD_SOURCE_STRIPE_MAX_BODY_BYTES", "many", "whole number"),
    ],
)
def test_a_wrong_variable_is_named(variable: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        environment.read({variable: value})


async def test_a_source_of_the_environment_is_the_same_on_every_node(db: Database) -> None:
    app = Onceward("env")
    here = Office(db, app)
    inboxes = [
        Inbox(
            db,
            app.registry,
            app.handlers,
            here.engine.waker,
            open_tx=here.engine.open_tx,
            environ={"ONCEWARD_SOURCE_STRIPE_SECRET": SECRET},
        )
        for _ in range(2)
    ]
    body = b'{"id":"evt_1","type":"ping"}'
    from onceward.inbox.signed_samples import sign
    from onceward.webhooks.provider import SourceConfig

    headers = sign(SourceConfig(provider="stripe", secrets=(SECRET,)), body, type="ping").headers
    for inbox in inboxes:
        await inbox.catalog.declare()
        await inbox.catalog.refresh()
        assert (await call(inbox, "/webhooks/stripe", body, headers)).status == 200
    assert await db.fetchval("select count(*) from onceward.webhook_events") == 1
    assert await db.fetchval("select secrets from onceward.sources where name = 'stripe'") is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"name": "Bad Name", "provider": "stripe"}, "name 'Bad Name'"),
        ({"name": "payments", "provider": "stripe"}, "payments"),
        ({"name": "x", "provider": "nobody"}, "not known"),
        ({"name": "cal", "provider": "calcom", "mode": "inline"}, "mode must be ack"),
        ({"name": "x", "provider": "stripe", "mode": "inline", "rate_per_s": 5.0}, "rate_per_s"),
        ({"name": "x", "provider": "none"}, "allow_unsigned"),
    ],
)
async def test_a_source_that_cannot_work_is_refused(db: Database, wrong: dict[str, Any], message: str) -> None:
    secrets = () if wrong["provider"] == "none" else (SECRET,)
    with pytest.raises(ConfigError, match=message):
        async with db.transaction(role="engine") as tx:
            await add(tx, BOX, NewSource(**wrong, secrets=secrets), actor="test")


async def test_secrets_are_sealed_and_bound_to_their_row(db: Database) -> None:
    here = Office(db, Onceward("sealed"))
    await here.source("wa", provider="whatsapp", options={"verify_token": "let me in"})
    row = await db.fetchrow("select secrets, options from onceward.sources where name = 'wa'")
    assert SECRET.encode() not in row["secrets"]
    assert row["options"] == {}
    challenge = "hub.mode=subscribe&hub.verify_token=let%20me%20in&hub.challenge=4711"
    reply = await call(here.inbox, "/webhooks/wa", method="GET", query=challenge)
    assert (reply.status, reply.body) == (200, b"4711")
    reply = await call(here.inbox, "/webhooks/wa", method="GET", query=challenge.replace("let", "get"))
    assert reply.status == 401
    await db.execute(
        "update onceward.sources set webhook_id = gen_random_uuid(), changed_at = clock_timestamp() where name = 'wa'"
    )
    await here.inbox.catalog.refresh()
    assert (await call(here.inbox, "/webhooks/wa", b"{}")).status == 503, "moved to another row it does not open"


async def test_a_batch_becomes_one_event_per_item_and_each_dedupes_by_itself(db: Database) -> None:
    app = Onceward("batch")
    seen: list[str] = []

    @app.on("whatsapp", "message.text")
    async def read(event: Event, tx: Tx) -> None:
        seen.append(event.data["message"]["text"]["body"])

    here = Office(db, app)
    await here.source("whatsapp")

    def batch(*texts: str) -> bytes:
        messages = [
            {"from": "1", "id": f"wamid.{text}", "timestamp": "1", "type": "text", "text": {"body": text}}
            for text in texts
        ]
        value = {"messaging_product": "whatsapp", "metadata": {"phone_number_id": "1"}, "messages": messages}
        entry = {"id": "1", "changes": [{"field": "messages", "value": value}]}
        return orjson.dumps({"object": "whatsapp_business_account", "entry": [entry]})

    assert (await here.send(batch("a", "b"), name="whatsapp")).status == 200
    assert (await here.send(batch("b", "c"), name="whatsapp")).status == 200
    await drain(here.engine)
    assert sorted(seen) == ["a", "b", "c"]
    empty = await here.send(orjson.dumps({"object": "whatsapp_business_account", "entry": []}), name="whatsapp")
    assert empty.status == 200
    assert await db.fetchval("select count(*) from onceward.webhook_events where type = 'empty'") == 1


async def test_twilio_gets_no_body_to_misread(db: Database) -> None:
    here = Office(db, Onceward("sms"))
    await here.source("twilio", public_url="https://hooks.example.com")
    body = b"MessageSid=SM1&SmsStatus=received&Body=hi"
    headers = here.signed("twilio", body, path="/webhooks/twilio")
    reply = await call(here.inbox, "/webhooks/twilio", body, headers)
    assert (reply.status, reply.body) == (204, b"")
    row = await db.fetchrow("select onceward.payload_of(e) as payload, raw from onceward.webhook_events e")
    assert (row["payload"]["Body"], row["raw"]) == ("hi", body)


async def test_a_handler_sees_its_organization_only_and_acts_for_one_where_the_source_has_none(db: Database) -> None:
    app = Onceward("tenants")

    @app.on("stripe", "charge.succeeded")
    async def handle(event: Event, tx: Tx) -> int:
        if wanted := event.data["metadata"].get("organization_id"):
            await tx.act_for(wanted)
        return await tx.fetchval("select count(*) from things")

    here = Office(db, app)
    async with db.transaction(role="engine") as tx:
        one = (await create_organization(tx, "one", actor="test")).organization_id
        two = (await create_organization(tx, "two", actor="test")).organization_id
    await db.execute("create table things (organization_id uuid); select onceward.protect('things')")
    await db.execute("insert into things values ($1), ($2), ($2)", one, two)
    await here.source("one", provider="stripe", organization=one)
    await here.source("platform", provider="stripe")
    await here.post(name="one", fields={"id": "evt_one"})
    await here.post(name="platform", fields={"id": "evt_two", "data.object.metadata": {"organization_id": str(two)}})
    await drain(here.engine)
    rows = await db.fetch("select event_id, organization_id, result from onceward.webhook_events order by event_id")
    assert [tuple(row) for row in rows] == [("evt_one", one, 1), ("evt_two", None, 2)]
    assert await db.fetchval("select count(*) from onceward.audit_log where action = 'organization.acted_for'") == 1


async def test_a_slow_body_is_cut_off_and_stalls_nobody(db: Database) -> None:
    here = Office(db, Onceward("slow"))
    await here.source()
    stuck = asyncio.Event()

    async def receive() -> Any:
        await stuck.wait()

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/webhooks/stripe",
        "query_string": b"",
        "headers": [],
        "client": None,
    }
    slow = asyncio.create_task(here.inbox(scope, receive, send))
    assert (await here.post("ping")).status == 200
    await here.inbox.receiver.hurry()
    assert not slow.done(), "it has its time"
    here.inbox.receiver._body_within_s = 0.0
    await here.inbox.receiver.hurry()
    await asyncio.wait_for(slow, 5)
    assert sent[0]["status"] == 408


async def test_webhooks_over_the_limit_are_answered_with_retry_after(db: Database) -> None:
    here = Office(db, Onceward("full"))
    await here.source()
    here.inbox.receiver.commits._most_waiting = 0
    reply = await here.post("ping")
    assert (reply.status, reply.headers["retry-after"]) == (503, "2")
