"""The load: senders that behave as payment providers do, and live subscribers that reconnect as browsers do."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections.abc import Sequence

import aiohttp
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from onceward.webhooks.provider import SourceConfig
from onceward.webhooks.registry import get_provider
from tools.chaos.history import Request
from tools.chaos.nodes import SECRET

ANSWER_WITHIN_S = 8.0
RETRY_AFTER_S = 1.0
IN_FLIGHT = 40
MODES = {"ack": "stripe", "inline": "inline"}


class Senders:
    """Posts signed webhooks at a steady rate. What is not answered with 200 is sent again, as providers do.

    One event in ten is sent once only, so that unacknowledged events exist. One in ten is sent again after its 200.
    """

    def __init__(self, urls: Sequence[str], *, rate: float, seed: int) -> None:
        self._urls = urls
        self._rate = rate
        self._random = random.Random(seed)
        self._provider = get_provider("stripe")
        self._config = SourceConfig(provider="stripe", secrets=(SECRET,))
        self._slots = asyncio.Semaphore(IN_FLIGHT)
        self._stopped = asyncio.Event()
        self.requests: list[Request] = []

    async def run(self) -> None:
        """Send until `stop`; then let the senders that wait for a 200 finish."""
        connector = aiohttp.TCPConnector(limit=IN_FLIGHT * 2)
        timeout = aiohttp.ClientTimeout(total=ANSWER_WITHIN_S)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            async with asyncio.TaskGroup() as senders:
                n = 0
                while not self._stopped.is_set():
                    await self._slots.acquire()
                    senders.create_task(self._send_event(session, n, self._random.random(), self._random.random()))
                    n += 1
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(1 / self._rate):
                            await self._stopped.wait()

    def stop(self) -> None:
        self._stopped.set()

    async def _send_event(self, session: aiohttp.ClientSession, n: int, luck: float, mode_luck: float) -> None:
        mode = "inline" if mode_luck < 0.3 else "ack"
        try:
            answered = await self._post(session, n, mode)
            while not answered and luck >= 0.1:
                await asyncio.sleep(RETRY_AFTER_S)
                answered = await self._post(session, n, mode)
            if luck > 0.9:
                await self._post(session, n, mode)
        finally:
            self._slots.release()

    async def _post(self, session: aiohttp.ClientSession, n: int, mode: str) -> bool:
        body = self._provider.encode(self._provider.sample("charge.succeeded", {"id": f"evt_chaos_{n}"}))
        headers = dict(self._provider.sign(self._config, body, time.time()))
        url = f"{self._random.choice(self._urls)}/webhooks/{MODES[mode]}"
        sent_s = time.time()
        status: int | None = None
        with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
            async with session.post(url, data=body, headers=headers) as answer:
                await answer.read()
                status = answer.status
        self.requests.append(Request(n, mode, status, sent_s, time.time()))
        return status == 200


class Subscriber:
    """Keeps the newest result of the query `total`, and connects again, to the next node, when it loses its connection."""

    def __init__(self, urls: Sequence[str], *, first: int) -> None:
        self._urls = [url.replace("http://", "ws://") + "/live" for url in urls]
        self._turn = first
        self.held: int | None = None

    async def run(self) -> None:
        while True:
            with contextlib.suppress(OSError, WebSocketException, TimeoutError, EOFError):
                await self._listen(self._urls[self._turn % len(self._urls)])
            self._turn += 1
            await asyncio.sleep(0.5)

    async def _listen(self, url: str) -> None:
        # A frozen node answers no pings, so the client leaves it.
        async with connect(
            url, compression=None, open_timeout=5, ping_interval=3, ping_timeout=5, close_timeout=1
        ) as ws:
            await ws.send(json.dumps({"type": "hello", "token": None}))
            await ws.send(json.dumps({"type": "subscribe", "id": 1, "query": "total", "arguments": {}, "hash": None}))
            async for text in ws:
                message = json.loads(text)
                for each in message["messages"] if message["type"] == "batch" else [message]:
                    for result in each.get("results", ()):
                        if "data" in result:
                            self.held = int(result["data"])
