"""Numbers for events that their requests handle: requests that arrive together share a round trip."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import count

from onceward.inbox.event_numbers import Numbered, Numbering

NOW = datetime(2026, 11, 17, tzinfo=UTC)


async def test_requests_that_arrive_during_a_round_trip_share_the_next_one() -> None:
    numbers, trips, going = count(1), [], asyncio.Event()

    async def take(many: int) -> Sequence[Numbered]:
        trips.append(many)
        await going.wait()
        return [Numbered(next(numbers), NOW) for _ in range(many)]

    numbering = Numbering(take)
    first = asyncio.create_task(numbering.next())
    while not trips:
        await asyncio.sleep(0)
    others = [asyncio.create_task(numbering.next()) for _ in range(9)]
    await asyncio.sleep(0)
    others[3].cancel()
    going.set()
    assert await first == (1, NOW)
    got = await asyncio.gather(*others, return_exceptions=True)
    assert [each[0] for each in got if not isinstance(each, BaseException)] == [2, 3, 4, 6, 7, 8, 9, 10]
    assert trips == [1, 9]
    assert (await numbering.next()).seq == 11


async def test_a_failed_round_trip_fails_its_requests_and_no_others() -> None:
    outages = [ConnectionError("away")]

    async def take(many: int) -> Sequence[Numbered]:
        if outages:
            raise outages.pop()
        return [Numbered(n, NOW) for n in range(many)]

    numbering = Numbering(take)
    failed = await asyncio.gather(numbering.next(), numbering.next(), return_exceptions=True)
    assert [type(each) for each in failed] == [ConnectionError, ConnectionError]
    assert (await numbering.next()).seq == 0
