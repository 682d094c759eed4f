"""From publish to the customer's endpoint: what arrives, what it is signed with, what an answer means."""

from __future__ import annotations

import hashlib
import hmac
import json

import pytest
import standardwebhooks
import svix

from onceward.simulators import CustomerEndpoint

from .conftest import OutboxBench


async def test_a_published_event_arrives_signed_for_both_libraries(
    bench: OutboxBench, customer: CustomerEndpoint
) -> None:
    made = await bench.register(customer.hook_url)
    await bench.start_worker()
    sent = await bench.publish("order.paid", {"amount": 4200})
    row = await bench.settled(sent.id)
    assert (row["status"], row["attempts"], row["response_status"]) == ("success", 1, 200)
    [request] = customer.received
    body = request.body
    assert json.loads(body) == {
        "id": sent.message_id,
        "type": "order.paid",
        "event": "order.paid",
        "timestamp": json.loads(body)["timestamp"],
        "data": {"amount": 4200},
    }
    headers = {name.lower(): value for name, value in request.headers.items()}
    assert standardwebhooks.Webhook(made.secret).verify(body, headers)["data"] == {"amount": 4200}
    svix.Webhook(made.secret).verify(body, headers)
    key = standardwebhooks.Webhook(made.secret)._whsecret
    plain = hmac.new(key, headers["x-webhook-timestamp"].encode() + b"." + body, hashlib.sha256).hexdigest()
    assert headers["x-webhook-signature"] == plain
    assert headers["x-webhook-event"] == "order.paid"
    assert headers["user-agent"].startswith("Onceward-Webhooks")
    assert await bench.db.fetchval("select count(*) from onceward.work") == 0
    [attempt] = await bench.db.fetch("select * from onceward.attempts")
    assert attempt["result"]["status"] == 200
    assert attempt["result"]["response"] == "thanks"


async def test_what_rolled_back_is_never_sent(bench: OutboxBench, customer: CustomerEndpoint) -> None:
    await bench.register(customer.hook_url)
    await bench.start_worker()
    with pytest.raises(KeyError):
        async with bench.engine.transaction() as tx:
            await tx.publish("order.paid", {"n": 1})
            raise KeyError
    sent = await bench.publish("order.paid", {"n": 2})
    await bench.settled(sent.id)
    assert [one.json["data"] for one in customer.accepted] == [{"n": 2}]
    assert await bench.db.fetchval("select count(*) from onceward.published") == 1
