"""The order in which live queries run: organizations take turns, and slow queries of one leave runners for others."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

from onceward.live.ready import ReadyGroups

A, B = UUID(int=1), UUID(int=2)


@dataclass
class Seen:
    organization: UUID | None


@dataclass
class Waiting:
    viewer: Seen
    payer: bytes


def group(organization: UUID, payer: bytes = b"one") -> Any:
    return cast(Any, Waiting(Seen(organization), payer))


async def test_a_flood_of_queries_of_one_organization_does_not_delay_another() -> None:
    ready = ReadyGroups(4)
    for _ in range(2000):
        ready.put(group(A))
    first = [await asyncio.wait_for(ready.get(), 1) for _ in range(2)]
    third = asyncio.create_task(ready.get())
    await asyncio.sleep(0)
    assert not third.done(), "its slow queries use half of the runners"
    quiet = group(B)
    ready.put(quiet)
    assert await asyncio.wait_for(third, 1) is quiet
    ready.done(first[0])
    assert (await asyncio.wait_for(ready.get(), 1)).viewer.organization == A
    third = asyncio.create_task(ready.get())
    await asyncio.sleep(0)
    third.cancel()
    await asyncio.wait([third])
    ready.done(quiet)
    ready.put(group(B))
    assert (await asyncio.wait_for(ready.get(), 1)).viewer.organization == B


async def test_the_callers_of_an_organization_take_turns() -> None:
    ready = ReadyGroups(1)
    for payer in (b"one", b"one", b"one", b"two"):
        ready.put(group(A, payer))
    order: list[bytes] = []
    for _ in range(4):
        each = await asyncio.wait_for(ready.get(), 1)
        order.append(cast(Any, each).payer)
        ready.done(each)
    assert order == [b"one", b"two", b"one", b"one"]
