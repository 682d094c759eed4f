"""Callers of the pool get connections in turn: nobody is overtaken without end, and the web does not starve workers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from onceward.db import Database
from onceward.db.turns import Turns, in_background

CLIENTS = 200
GRANTS = 3000


@pytest.fixture
async def small(database_url: str) -> AsyncGenerator[Database]:
    db = await Database.open(database_url, min_size=2, max_size=2)
    yield db
    await db.close()


async def overtaken(lend: Callable[[], AbstractAsyncContextManager[Any]]) -> tuple[int, int]:
    """Let clients ask again and again, beside three callers in the background.

    Return how often those three got a connection, and the largest number of grants that one of them waited for.
    """
    granted = 0
    waits: list[int] = []
    enough = asyncio.Event()

    async def ask(waited: list[int]) -> None:
        nonlocal granted
        while True:
            before = granted
            async with lend():
                waited.append(granted - before)
                granted += 1
                await asyncio.sleep(0)
            if granted >= GRANTS:
                enough.set()
            await asyncio.sleep(0)

    tasks = [asyncio.create_task(ask([])) for _ in range(CLIENTS)]
    with in_background():
        tasks += [asyncio.create_task(ask(waits)) for _ in range(3)]
    async with asyncio.timeout(30):
        await enough.wait()
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    return len(waits), max(waits, default=granted)


async def test_work_in_the_background_gets_every_second_connection_while_the_web_waits(small: Database) -> None:
    count, longest = await overtaken(small.acquire)
    assert longest <= 12, "three callers in the background and two connections: a few grants, not all of the clients"
    assert count > GRANTS / 4


async def test_without_turns_the_pool_serves_newcomers_first_and_may_never_serve_who_waits(small: Database) -> None:
    @asynccontextmanager
    async def lend() -> AsyncGenerator[Any]:
        async with small.pool.acquire() as conn:
            yield conn

    count, longest = await overtaken(lend)
    assert longest > CLIENTS / 2
    assert count < GRANTS / 4


async def test_callers_of_one_line_are_served_in_their_order() -> None:
    turns, order = Turns(1), list[int]()
    await turns.enter()

    async def ask(number: int) -> None:
        await turns.enter()
        order.append(number)

    tasks = [asyncio.create_task(ask(number)) for number in range(5)]
    await asyncio.sleep(0)
    tasks[1].cancel()  # while it waits
    turns.leave()
    tasks[0].cancel()  # in the moment in which it was given the place
    await asyncio.wait(tasks[:2])
    for number in (2, 3, 4):
        await asyncio.wait([tasks[number]])
        turns.leave()
    assert order == [2, 3, 4]
    assert not turns.waiting
    async with asyncio.timeout(1):
        await turns.enter()  # the place of the cancelled callers was not lost


async def test_a_place_is_given_back_whatever_happens_to_the_connection(small: Database) -> None:
    async def interrupted() -> None:
        async with small.acquire() as conn:
            await conn.execute("begin")
            await conn.execute("select pg_sleep(30)")

    for _ in range(3):
        tasks = [asyncio.create_task(interrupted()) for _ in range(2)]
        await asyncio.sleep(0.05)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for _ in range(3):
        with pytest.raises(Exception):  # noqa: B017 - whatever asyncpg raises when the server ends the session
            async with small.acquire() as conn:
                await conn.execute("select pg_terminate_backend(pg_backend_pid())")
                await conn.execute("select 1")
    async with asyncio.timeout(10), small.acquire() as first, small.acquire() as second:
        assert await first.fetchval("select 1") == await second.fetchval("select 1")


async def test_a_connection_returns_to_the_pool_although_its_user_is_cancelled_twice(small: Database) -> None:
    """The second cancellation comes while the open transaction is rolled back."""
    for _ in range(3):  # more often than the pool has connections
        begun = asyncio.Event()

        async def work(begun: asyncio.Event = begun) -> None:
            async with small.acquire() as conn:
                await conn.execute("begin")
                begun.set()
                await asyncio.sleep(60)

        working = asyncio.create_task(work())
        await begun.wait()
        working.cancel()
        await asyncio.sleep(0)  # the rollback was sent
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
    async with asyncio.timeout(5):
        assert await small.fetchval("select 1") == 1
