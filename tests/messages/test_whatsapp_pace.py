"""WhatsApp: at least 500 ms between two sends of one sender, and slots for at least 100 sends a minute."""

from __future__ import annotations

import asyncio
import itertools
import time

import pytest

from onceward.messages import Limit
from onceward.messages.limits import JITTER_S

PHONE = "+4915112345678"
PACE = Limit(count=1, per_s=0.5)
RESERVE = "select wait_s from onceward.reserve_send($1, $2, $3)"


async def test_slots_for_a_hundred_sends_fit_into_a_minute(db) -> None:
    scope = [PACE.key("whatsapp", "100200300", PHONE)]
    rows = await asyncio.gather(*(db.fetchval(RESERVE, scope, [PACE.every_s], [86400.0]) for _ in range(101)))
    waits = sorted(rows)
    # The slots are handed out within the time that the calls took, and the last one is a hundred intervals after the first.
    assert waits[-1] - waits[0] <= 60.0
    assert PACE.every_s - PACE.valid_s - JITTER_S >= 0.5, "a late send before a punctual one keeps the floor"


@pytest.mark.parametrize(("count", "per_s"), [(6, 0.1), pytest.param(40, 0.5, marks=pytest.mark.slow)])
async def test_two_workers_keep_the_floor_at_the_service(office, wires, monkeypatch, count: int, per_s: float) -> None:
    """Meta allows a message every 500 ms. The short case keeps a shorter interval in the same way."""
    here = await office(wires.whatsapp, limits={"whatsapp": [Limit(count=1, per_s=per_s)]})
    arrived: list[float] = []
    send = wires.whatsapp.send

    async def timed(letter):
        arrived.append(time.monotonic())
        return await send(letter)

    monkeypatch.setattr(wires.whatsapp, "send", timed)
    ids = [await here.send("news", to=f"+49151123456{n:02d}", channel="whatsapp", key=f"k{n}") for n in range(count)]
    await here.start_worker()
    await here.start_worker()
    for id in ids:
        assert (await here.until(id, timeout_s=60))["status"] == "success"
    gaps = [after - before for before, after in itertools.pairwise(arrived)]
    assert len(gaps) == count - 1
    assert min(gaps) >= per_s
