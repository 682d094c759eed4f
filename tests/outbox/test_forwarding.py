"""A source in mode forward: received once, sent to each endpoint with its own filter, paused, repeated and replayed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest
from standardwebhooks import Webhook

from onceward.db import Database
from onceward.process.process import Process
from onceward.testing import until
from onceward.testing.simulators import CustomerEndpoint
from tests.web.operating import client_for, started

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
async def process(database_url: str) -> AsyncIterator[Process]:
    process = await started(database_url, roles={"web", "worker"})
    yield process
    await process.stop()


async def test_a_route_forwards_each_event_once_to_every_endpoint_that_wants_it(
    db: Database, process: Process, customer: CustomerEndpoint
) -> None:
    assert process.web is not None
    async with aiohttp.ClientSession(process.web.url) as session:
        ours = await client_for(db, session, "ours", "owner")
        theirs = await client_for(db, session, "theirs", "owner")
        new = {"name": "shop", "provider": "standard", "secrets": [SECRET], "mode": "forward"}
        status, source = await ours("POST", "/sources", new)
        assert status == 201, source
        route: dict[str, Any] = {"source": "shop", "url": f"{customer.hook_url}/large", "filter": "total > `10`"}
        assert (await ours("POST", "/endpoints", {**route, "events": ["order/created"]}))[0] == 201
        assert (
            await ours("POST", "/endpoints", {"source": "shop", "url": f"{customer.hook_url}/all", "events": ["*"]})
        )[0] == 201
        # An endpoint of published events gets none of them, and a foreign source does not exist.
        assert (await ours("POST", "/endpoints", {"url": f"{customer.hook_url}/published", "events": ["*"]}))[0] == 201
        status, problem = await theirs("POST", "/endpoints", {**route, "events": ["*"]})
        assert (status, problem["errors"][0]["field"]) == (422, "source")

        async def post(id: str, total: int, type: str = "order/created") -> int:
            body = json.dumps({"type": type, "total": total})
            now = datetime.now(UTC)
            headers = {
                "webhook-id": id,
                "webhook-timestamp": str(int(now.timestamp())),
                "webhook-signature": Webhook(SECRET).sign(id, now, body),
                "content-type": "application/json; charset=utf-8",
            }
            async with session.post("/webhooks/shop", data=body, headers=headers) as response:
                return response.status

        async def arrived(number: int) -> bool:
            return len(customer.received) == number

        assert [await post("evt-1", 5), await post("evt-2", 50), await post("evt-2", 50)] == [200, 200, 200]
        assert await post("evt-3", 99, "order/deleted") == 200
        await until(lambda: arrived(4))
        seen = sorted((one.path, one.headers["x-onceward-event-id"]) for one in customer.received)
        assert seen == [
            ("/hook/all", "evt-1"),
            ("/hook/all", "evt-2"),
            ("/hook/all", "evt-3"),
            ("/hook/large", "evt-2"),
        ]
        [sent] = [one for one in customer.received if one.headers["x-onceward-event-id"] == "evt-1"]
        assert sent.body == b'{"type": "order/created", "total": 5}', "the bytes that arrived"
        assert sent.headers["content-type"] == "application/json; charset=utf-8"
        assert (sent.headers["x-onceward-source"], sent.headers["x-webhook-event"]) == ("shop", "order/created")

        assert (await ours("POST", "/sources/shop/pause"))[0] in (200, 204)
        assert await post("evt-4", 5) == 200
        assert await db.fetchval("select count(*) from onceward.published where type = 'order/created'") == 2
        assert (await ours("POST", "/sources/shop/resume"))[0] in (200, 204)
        await until(lambda: arrived(5))
        # A replay is the operator's wish to send it again.
        event = await db.fetchval("select id from onceward.webhook_events where event_id = 'evt-1'")
        assert (await ours("POST", f"/events/{event}/replay", {"reason": "again", "as_new": True}))[0] == 202
        await until(lambda: arrived(6))
        assert await db.fetchval("select count(*) from onceward.deliveries where status = 'skipped'") == 3
