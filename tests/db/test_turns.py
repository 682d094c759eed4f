"""Callers of the pool get connections in turn: nobody is overtaken without end, and the web does not starve workers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import asyncpg
import pytest

from onceward.db import Database
from onceward.db.callers import Caller, calling_as
from onceward.db.errors import TooManyRequests
from onceward.db.turns import Turn, Turns, in_background

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
    first = await turns.enter()
    got: dict[int, Turn] = {}

    async def ask(number: int) -> None:
        got[number] = await turns.enter()
        order.append(number)

    tasks = [asyncio.create_task(ask(number)) for number in range(5)]
    await asyncio.sleep(0)
    tasks[1].cancel()  # while it waits
    turns.leave(first)
    tasks[0].cancel()  # in the moment in which it was given the place
    await asyncio.wait(tasks[:2])
    for number in (2, 3, 4):
        await asyncio.wait([tasks[number]])
        turns.leave(got[number])
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


async def enter_as(turns: Turns, customer: str, principal: str = "p") -> Turn:
    with calling_as(Caller(customer, principal)):
        return await turns.enter()


async def test_a_customer_that_keeps_its_connections_leaves_some_for_others() -> None:
    turns = Turns(10)
    heavy = [asyncio.create_task(enter_as(turns, "a", f"person {n % 20}")) for n in range(100)]
    await asyncio.sleep(0)
    assert turns.held_by == {"a": 7}
    async with asyncio.timeout(1):
        others = [await enter_as(turns, "b"), await enter_as(turns, "c"), await turns.enter()]
    assert turns.free == 0
    for turn in others:
        turns.leave(turn)
    assert turns.held_by == {"a": 7}, "what others give back stays free for the next of them"
    for task in heavy:
        task.cancel()


async def test_one_principal_leaves_connections_for_others_of_its_organization_and_they_take_turns() -> None:
    turns = Turns(8)
    mine = [asyncio.create_task(enter_as(turns, "a", "one")) for _ in range(20)]
    await asyncio.sleep(0)
    assert turns.free == 4
    other = await asyncio.wait_for(enter_as(turns, "a", "two"), 1)
    waits = asyncio.create_task(enter_as(turns, "a", "two"))
    await asyncio.sleep(0)
    turns.leave(other)
    second = await asyncio.wait_for(waits, 1)
    assert second.place == ("a", "two"), "not one of the many that waited before"
    for task in mine:
        task.cancel()


async def test_a_request_that_has_a_connection_gets_another_one_and_does_not_wait_for_itself() -> None:
    turns = Turns(2)
    with calling_as(Caller("a", "p")):
        first = await turns.enter()
        async with asyncio.timeout(1):
            second = await turns.enter()
    assert turns.free == 0
    turns.leave(first)
    turns.leave(second)
    assert (turns.free, turns.held_by) == (2, {})


async def test_too_many_waiting_requests_of_one_customer_are_refused_and_others_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("onceward.db.turns.MOST_WAITING", 20)
    turns = Turns(1)
    held = await turns.enter()
    tasks = [asyncio.create_task(enter_as(turns, "a")) for _ in range(15)]
    await asyncio.sleep(0)
    refused = [task for task in tasks if task.done() and isinstance(task.exception(), TooManyRequests)]
    assert len(refused) == 5
    quiet = asyncio.create_task(enter_as(turns, "b"))
    await asyncio.sleep(0)
    turns.leave(held)
    await asyncio.sleep(0)
    first = next(task for task in tasks if task.done() and task not in refused).result()
    turns.leave(first)
    assert (await asyncio.wait_for(quiet, 1)).place == ("b", "p"), "in turn, not behind all of the others"
    for task in tasks:
        task.cancel()


async def test_lines_of_customers_webhooks_and_work_take_turns() -> None:
    turns, order = Turns(1), list[str]()
    held = await turns.enter()

    async def ask(name: str) -> None:
        turn = await (enter_as(turns, name) if name != "nobody" and name != "work" else turns.enter())
        order.append(name)
        turns.leave(turn)

    tasks = [asyncio.create_task(ask(name)) for name in ["a"] * 4 + ["nobody"] * 2]
    with in_background():
        tasks += [asyncio.create_task(ask("work")) for _ in range(2)]
    await asyncio.sleep(0)
    turns.leave(held)
    await asyncio.gather(*tasks)
    assert order == ["nobody", "work", "a", "nobody", "work", "a", "a", "a"]


async def test_a_statement_of_a_request_ends_after_its_limit(db: Database) -> None:
    caller = Caller("a", "p", statement_timeout_s=0.2)
    with calling_as(caller):
        with pytest.raises(asyncpg.QueryCanceledError):
            async with db.transaction() as tx:
                await tx.execute("select pg_sleep(5)")
        caller.statement_timeout_s = 20.0
        async with db.transaction() as tx:
            assert await tx.fetchval("show statement_timeout") == "20s"
    async with db.transaction() as tx:
        assert await tx.fetchval("show statement_timeout") == "0"


@pytest.mark.parametrize("at", ["begin", "statement", "block", "savepoint"])
async def test_a_request_that_is_cancelled_at_every_await_leaves_its_connection_in_order(
    small: Database, at: str, caplog: pytest.LogCaptureFixture
) -> None:
    """So does a server of ASGI applications (Starlette with anyio) when the client of a download has gone."""
    async with small.acquire() as first, small.acquire() as second:
        before = {await conn.fetchval("select pg_backend_pid()") for conn in (first, second)}

    async def work(scope: anyio.CancelScope) -> None:
        async with small.transaction(role="engine") as tx:
            if at == "savepoint":
                async with tx.savepoint("part"):
                    await tx.execute("select pg_sleep(0.02)")
            elif at == "block":
                scope.cancel()
                await asyncio.sleep(60)
            await tx.execute("select pg_sleep(60)")

    for _ in range(5):  # more often than the pool has connections
        with anyio.CancelScope() as scope:
            asyncio.get_running_loop().call_later({"begin": 0, "statement": 0.03}.get(at, 0.01), scope.cancel)
            await work(scope)
        assert scope.cancelled_caught
    async with asyncio.timeout(5), small.acquire() as first, small.acquire() as second:
        assert {await conn.fetchval("select pg_backend_pid()") for conn in (first, second)} == before
    assert [each.getMessage() for each in caplog.records if each.name == "asyncio"] == []
