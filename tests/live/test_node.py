"""The JavaScript client in Node: it shows changes, survives dropped connections, and tries again where nobody listens."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from onceward.db import Database
from tests.child import ROOT, end_all
from tests.live.conftest import Start
from tests.live.test_queries import add_seat, shop_app

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed: apt-get install nodejs"),
]
SCRIPT = Path(__file__).parent / "node_client.mjs"
WITHIN_S = 60.0


class Node:
    """What a client in a process of its own says."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.said: list[dict[str, Any]] = []

    async def until(self, holds: Callable[[dict[str, Any]], bool]) -> None:
        """Read on until it has said something like this."""
        assert self.process.stdout is not None
        async with asyncio.timeout(WITHIN_S):
            while line := await self.process.stdout.readline():
                self.said.append(json.loads(line))
                if holds(self.said[-1]):
                    return
        raise AssertionError(f"the client ended with {await self.process.wait()} after {self.said}")

    async def close(self) -> int:
        """Close the client; its process must then end by itself."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        async with asyncio.timeout(WITHIN_S):
            return await self.process.wait()


@asynccontextmanager
async def node(url: str, transport: str, *, token: str = "", event: UUID | None = None) -> AsyncIterator[Node]:
    # Node 22 has a WebSocket of its own, Node 20 the same one behind a flag.
    flags = ["--experimental-websocket"] if transport == "websocket" else []
    process = await asyncio.create_subprocess_exec(
        *("node", *flags, str(SCRIPT), str(ROOT / "clients/js/client.js"), url, token, transport, str(event)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield Node(process)
    finally:
        await end_all([process])


@pytest.mark.parametrize("transport", ["websocket", "sse"])
async def test_a_client_in_node_shows_each_change_and_survives_a_dropped_connection(
    transport: str, site: Start, shop: Database, organization: UUID
) -> None:
    here, event = await site(shop_app()), uuid4()
    url = f"http://127.0.0.1:{here.web.port}/live"
    async with node(url, transport, token=f"{organization}/ada/viewer", event=event) as client:
        await client.until(lambda said: said.get("seats") == 0)
        await add_seat(shop, organization, event)
        await client.until(lambda said: said.get("seats") == 1)
        await here.node.endpoint.close_all()
        await client.until(lambda said: said.get("state") == "waiting")
        await add_seat(shop, organization, event)
        await client.until(lambda said: said.get("seats") == 2 and not said["stale"])
        assert await client.close() == 0


@pytest.mark.parametrize("transport", ["websocket", "sse"])
async def test_a_client_in_node_tries_again_where_nobody_listens(transport: str) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # taken, and nobody listens
        async with node(f"http://127.0.0.1:{bound.getsockname()[1]}/live", transport, event=uuid4()) as client:
            await client.until(lambda said: said.get("state") == "waiting")
            await client.until(lambda said: said.get("state") == "connecting")
            await client.until(lambda said: said.get("state") == "waiting")
            assert await client.close() == 0
