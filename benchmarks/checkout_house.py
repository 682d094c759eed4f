"""Sales and the seat map in houses of different sizes: a sale must cost the same in a club and in an arena.

sale-size  sales per second in houses of 100, 20,000 and 100,000 seats; the baseline is the pgbench script in the same house
seat-map   a house of 20,000 seats: opening its map, and the time and bytes from a sale to a viewer
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any
from uuid import UUID

import httpx
import orjson
from fastapi import FastAPI

from benchmarks.measure import BenchFailed, Measurement, Size, compare
from onceward.live import LiveNode
from onceward.live.connection import Connection
from onceward.live.protocol import Hello, Subscribe
from onceward.web import engine_of
from onceward_apps.ticketing.app import app
from onceward_apps.ticketing.routes import buyers

if TYPE_CHECKING:
    from benchmarks.checkout import Box

SEATS = 4
CLIENTS = 16
WARM_UP = 8
HOUSES = {100: (5, 20), 20_000: (500, 40), 100_000: (2000, 50)}
"""Rows and seats in each row, by the number of seats."""
OPEN_MS, UPDATE_MS, UPDATE_BYTES = 100.0, 20.0, 2048.0
"""The limits for the map of 20,000 seats."""


async def sale_size(box: Box, size: Size) -> list[Measurement]:
    """Measure sales in each house. All sales of a house of 100 seats need several such houses."""
    sales = size.pick(30, 15, 2)
    number = 2 * size.turns() * CLIENTS * (WARM_UP + sales)
    results: list[Measurement] = []
    for seats in HOUSES if size is not Size.SMOKE else (100,):
        ready = iter(await _opened(box, seats, number))

        async def checkouts(count: int, ready: Iterator[tuple[UUID, list[UUID]]] = ready) -> list[Any]:
            return await box.checkouts_of(itertools.islice(ready, count))

        results += await box.compare_sales(f"sale-{seats}", size, checkouts, sales=sales)
    return results


async def _opened(box: Box, seats: int, sales: int) -> list[tuple[UUID, list[UUID]]]:
    """Open enough houses, and return for each sale its event and four adjacent seats."""
    rows, per_row = HOUSES[seats]
    places: list[tuple[UUID, list[UUID]]] = []
    while len(places) < sales:
        event_id, ids = await box.event(rows, per_row)
        groups = [ids[n : n + SEATS] for n in range(0, len(ids), SEATS)]
        # From all over the house: a sale in each row before the second one in any row.
        ordered = [group for first in range(per_row // SEATS) for group in groups[first :: per_row // SEATS]]
        places += [(event_id, group) for group in ordered]
    await box.db.execute("analyze")
    return places[:sales]


async def seat_map(box: Box, size: Size) -> list[Measurement]:
    """Open the map of a large house, and watch it while seats are sold."""
    seats = size.pick(20_000, 20_000, 100)
    rows, per_row = HOUSES[seats]
    event_id, ids = await box.event(rows, per_row)
    await box.db.execute("analyze")
    number = size.pick(60, 10, 2)
    groups = iter([ids[n : n + SEATS] for n in range(0, len(ids), SEATS * 11)][: number * size.turns()])
    api = FastAPI()
    api.include_router(buyers.router)
    api.dependency_overrides[engine_of] = lambda: box.engine
    node = LiveNode(box.db, app.live, waker=box.engine.waker)
    box.engine.wakes_live = True
    await node.start()
    try:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://bench") as http:
            viewer = Viewer(node, event_id)
            await viewer.open(http)
            sizes: list[int] = []

            async def opening() -> float:
                took = [await Viewer(node, event_id).open(http) for _ in range(5)]
                return sorted(took)[2]

            async def update() -> float:
                took: list[float] = []
                for group in itertools.islice(groups, number):
                    checkout = await box.checkout(event_id, group)
                    await viewer.settled()
                    before = time.perf_counter()
                    await box.pay(checkout)
                    paid = time.perf_counter()
                    sizes.append(await viewer.next_frame(after=before))
                    took.append((max(viewer.at, paid) - paid) * 1000)
                return sorted(took)[len(took) // 2]

            async def largest() -> float:
                return float(max(sizes))

            return [
                await _limit("seat-map-open", opening, "ms", OPEN_MS, size),
                await _limit("seat-map-update", update, "ms", UPDATE_MS, size),
                await _limit("seat-map-bytes", largest, "bytes", UPDATE_BYTES, size),
            ]
    finally:
        await node.stop()


async def _limit(case: str, side: Callable[[], Awaitable[float]], unit: str, limit: float, size: Size) -> Measurement:
    async def target() -> float:
        return limit

    return await compare(
        "checkout",
        case,
        side,
        unit=unit,
        baseline=f"limit of {limit:g} {unit}",
        theirs=target,
        turns=size.turns(),
        smaller_is_better=True,
    )


class Viewer:
    """A page that shows the seat map: it loads the event, then subscribes to the states of the seats."""

    def __init__(self, node: LiveNode, event_id: UUID) -> None:
        self.node = node
        self.event_id = event_id
        self.frames: list[tuple[float, int]] = []
        self.arrived = asyncio.Event()
        self.connection: Connection | None = None

    @property
    def at(self) -> float:
        return self.frames[-1][0]

    async def open(self, http: httpx.AsyncClient) -> float:
        """Return how many milliseconds the page waits for the event and the states of all seats."""
        began = time.perf_counter()
        answer = await http.get(f"/api/v1/ticketing/public/events/{self.event_id}")
        if answer.status_code != 200:
            raise BenchFailed(f"the event was answered {answer.status_code}")
        service = self.node.service
        self.connection = service.welcome(
            None, Hello(None, None, None), self._send, client="127.0.0.1", transport="websocket"
        )
        arguments = {"event_id": str(self.event_id)}
        await service.answer(self.connection, Subscribe(1, "ticketing.seats", arguments, None))
        await self.next_frame(after=began)
        return (self.at - began) * 1000

    async def _send(self, text: str) -> None:
        message = orjson.loads(text)
        for each in message["messages"] if message["type"] == "batch" else [message]:
            if each["type"] == "frame" and each.get("results"):
                self.frames.append((time.perf_counter(), len(text)))
                self.arrived.set()

    async def next_frame(self, *, after: float) -> int:
        """Wait for the first frame after this time, and return the size of the newest."""
        while not self.frames or self.at < after:
            self.arrived.clear()
            await asyncio.wait_for(self.arrived.wait(), 10)
        return self.frames[-1][1]

    async def settled(self) -> None:
        """Wait until frames of earlier changes have arrived."""
        count = -1
        while count != len(self.frames):
            count = len(self.frames)
            await asyncio.sleep(0.05)
