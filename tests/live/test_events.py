"""Where WebSockets do not get through: the same over server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import aiohttp

from onceward.db import Database
from tests.live.conftest import Site, Start
from tests.live.test_queries import add_seat, shop_app


def url(site: Site) -> str:
    return f"http://127.0.0.1:{site.web.port}/live/sse"


async def events(response: aiohttp.ClientResponse) -> AsyncIterator[dict[str, Any]]:
    async for line in response.content:
        if line.startswith(b"data: "):
            message = json.loads(line[6:])
            for each in message["messages"] if message["type"] == "batch" else [message]:
                yield each


async def next_result(stream: AsyncIterator[dict[str, Any]]) -> Any:
    async with asyncio.timeout(10):
        async for message in stream:
            if message["type"] == "frame":
                return message["results"][0]
    raise AssertionError("the stream ended")


async def test_results_come_as_events(site: Start, shop: Database, organization: UUID) -> None:
    here, event = await site(shop_app()), uuid4()
    subscribe = {"type": "subscribe", "id": 5, "query": "occupancy", "arguments": {"event_id": str(event)}}
    hello = {"type": "hello", "token": f"{organization}/ada/viewer"}
    async with aiohttp.ClientSession() as session:
        async with session.post(url(here), json={"messages": [hello, subscribe]}) as response:
            assert response.status == 200
            assert response.content_type == "text/event-stream"
            stream = events(response)
            first = await next_result(stream)
            assert (first["id"], first["data"]) == (5, {"seats": 0, "sold": 0})
            await add_seat(shop, organization, event)
            assert (await next_result(stream))["data"] == {"seats": 1, "sold": 0}
    async with asyncio.timeout(5):
        while here.node.hub.connections:
            await asyncio.sleep(0.01)


async def test_curl_can_watch_a_query_by_its_address(site: Start, organization: UUID) -> None:
    here = await site(shop_app())
    headers = {"Authorization": f"Bearer {organization}/ada/viewer"}
    arguments = json.dumps({"event_id": str(uuid4())})
    async with aiohttp.ClientSession(headers=headers) as session:
        async with session.get(url(here), params={"query": "occupancy", "arguments": arguments}) as response:
            assert (await next_result(events(response)))["data"] == {"seats": 0, "sold": 0}


async def test_wrong_requests_are_answered_with_their_status(site: Start, organization: UUID) -> None:
    here = await site(shop_app(), max_connections=1)
    async with aiohttp.ClientSession() as session:
        for body, status in (({"messages": []}, 400), ({"messages": [{"type": "hello", "token": "x"}]}, 401)):
            async with session.post(url(here), json=body) as response:
                assert response.status == status
        async with session.get(url(here), headers={"Origin": "https://evil.example"}) as response:
            assert response.status == 403
        async with session.get(f"http://127.0.0.1:{here.web.port}/live") as response:
            assert response.status == 426
        async with session.get(f"http://127.0.0.1:{here.web.port}/live/client.js") as response:
            assert response.status == 200
            assert "export class LiveClient" in await response.text()
