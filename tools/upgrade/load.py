"""Senders of webhooks behind a load balancer that tries the next node if one refuses the connection."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp

from onceward.webhooks.provider import SourceConfig
from onceward.webhooks.registry import get_provider
from tools.upgrade.nodes import SECRET

ANSWER_WITHIN_S = 30.0
IN_FLIGHT = 30
GRACE_S = 10.0


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one request. `status` is None if no answer came, for example because the node closed the connection."""

    n: int
    status: int | None
    retry_after: bool
    took_s: float


class Load:
    """Posts signed webhooks at a steady rate until `stop`. Each is sent again until it is answered with 200."""

    def __init__(self, urls: Sequence[str], *, rate: float) -> None:
        self._urls = itertools.cycle(urls)
        self._rate = rate
        self._provider = get_provider("stripe")
        self._config = SourceConfig(provider="stripe", secrets=(SECRET,))
        self._slots = asyncio.Semaphore(IN_FLIGHT)
        self._stopped = asyncio.Event()
        self._ends = 0.0
        self.answers: list[Answer] = []

    @property
    def acknowledged(self) -> int:
        return len({each.n for each in self.answers if each.status == 200})

    async def run(self) -> None:
        timeout = aiohttp.ClientTimeout(total=ANSWER_WITHIN_S)
        async with aiohttp.ClientSession(timeout=timeout) as session, asyncio.TaskGroup() as senders:
            for n in itertools.count():
                await self._slots.acquire()
                senders.create_task(self._send(session, n))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(1 / self._rate):
                        await self._stopped.wait()
                if self._stopped.is_set():
                    return

    def stop(self) -> None:
        """Send no new events. Those that were not acknowledged yet are sent again for a short time."""
        self._ends = time.monotonic() + GRACE_S
        self._stopped.set()

    async def _send(self, session: aiohttp.ClientSession, n: int) -> None:
        try:
            while not await self._post(session, n):
                if self._stopped.is_set() and time.monotonic() > self._ends:
                    return
                await asyncio.sleep(0.2)
            if n % 10 == 9:
                await self._post(session, n)  # a duplicate
        finally:
            self._slots.release()

    async def _post(self, session: aiohttp.ClientSession, n: int) -> bool:
        source = "inline" if n % 3 == 0 else "stripe"
        body = self._provider.encode(self._provider.sample("charge.succeeded", {"id": f"evt_upgrade_{n}"}))
        headers = dict(self._provider.sign(self._config, body, time.time()))
        began = time.monotonic()
        status, retry_after = None, False
        with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
            async with session.post(f"{next(self._urls)}/webhooks/{source}", data=body, headers=headers) as answer:
                await answer.read()
                status, retry_after = answer.status, "Retry-After" in answer.headers
        self.answers.append(Answer(n, status, retry_after, time.monotonic() - began))
        return status == 200
