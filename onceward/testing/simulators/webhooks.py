"""Send webhooks as external services do: signed for each attempt, retried until a 2xx response."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import aiohttp

from onceward.background import Tasks

Sign = Callable[[bytes], Mapping[str, str]]


@dataclass(slots=True)
class SimulatedDelivery:
    """One webhook with the status of each attempt. The status is 0 if there was no response."""

    url: str
    body: bytes = field(repr=False)
    statuses: list[int] = field(default_factory=list[int])
    answers: list[bytes] = field(default_factory=list[bytes], repr=False)
    ended: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    """Set when the webhook is delivered or has no retries left."""

    @property
    def delivered(self) -> bool:
        return bool(self.statuses) and 200 <= self.statuses[-1] < 300


class WebhookSender:
    """Sends webhooks in the background. It makes one attempt, and one more after each of `retry_delays_s`."""

    def __init__(self, *, retry_delays_s: Sequence[float] = (), timeout_s: float = 20.0) -> None:
        self.deliveries: list[SimulatedDelivery] = []
        self.retry_delays_s = tuple(retry_delays_s)
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._tasks = Tasks("simulated webhooks")
        self._held: list[tuple[SimulatedDelivery, Sign]] | None = None
        self._to_lose = 0
        self._to_double = 0
        self._signs: dict[int, Sign] = {}

    def hold(self) -> None:
        """Keep all webhooks from now on until `release`, so that they arrive late."""
        if self._held is None:
            self._held = []

    def release(self, *, reverse: bool = False) -> int:
        """Send the webhooks that were held, with `reverse` the newest first. Returns how many."""
        held, self._held = self._held or [], None
        for delivery, sign in reversed(held) if reverse else held:
            self._start(delivery, sign)
        return len(held)

    def lose(self, count: int = 1) -> None:
        """Never send the next webhooks. They stay in `deliveries`, without an attempt."""
        self._to_lose += count

    def double(self, count: int = 1) -> None:
        """Send each of the next webhooks twice, at the same time."""
        self._to_double += count

    def repeat(self, delivery: SimulatedDelivery) -> SimulatedDelivery:
        """Send a webhook again, with the same body and a new signature, as services do after a lost answer."""
        return self.send(delivery.url, delivery.body, self._signs[id(delivery)])

    def send(self, url: str, body: bytes, sign: Sign) -> SimulatedDelivery:
        """Start sending one webhook. `sign` returns the headers of each attempt."""
        delivery = SimulatedDelivery(url, body)
        self.deliveries.append(delivery)
        self._signs[id(delivery)] = sign
        if self._to_lose:
            self._to_lose -= 1
            delivery.ended.set()
            return delivery
        copies = 1
        if self._to_double:
            self._to_double -= 1
            copies = 2
        for _ in range(copies):
            if self._held is not None:
                self._held.append((delivery, sign))
            else:
                self._start(delivery, sign)
        return delivery

    def _start(self, delivery: SimulatedDelivery, sign: Sign) -> None:
        self._tasks.start(self._deliver(delivery, sign))

    async def settle(self, *, timeout_s: float = 30.0) -> None:
        """Wait until every webhook is delivered or has no retries left."""
        async with asyncio.timeout(timeout_s):
            await self._tasks.wait()

    async def aclose(self) -> None:
        await self._tasks.stop()

    async def _deliver(self, delivery: SimulatedDelivery, sign: Sign) -> None:
        for delay_s in (0.0, *self.retry_delays_s):
            if delay_s:
                await asyncio.sleep(delay_s)
            await self._try(delivery, sign(delivery.body))
            if delivery.delivered:
                break
        delivery.ended.set()

    async def _try(self, delivery: SimulatedDelivery, headers: Mapping[str, str]) -> None:
        try:
            async with (
                aiohttp.ClientSession(timeout=self._timeout) as session,
                session.post(delivery.url, data=delivery.body, headers=headers, allow_redirects=False) as response,
            ):
                delivery.answers.append((await response.read())[:4096])
                delivery.statuses.append(response.status)
        except (aiohttp.ClientError, TimeoutError, OSError):
            delivery.statuses.append(0)
