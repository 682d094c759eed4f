"""Freeze a process at every gate in turn, let another one take over and finish, thaw the first, and compare.

    gates = await stall_test("shop.stalls:order", database_url)

A worker that stands still (a paused virtual machine, a long garbage collection, SIGSTOP) is taken for dead: its work is
rescued and finished by another one. When it wakes up it goes on where it stood, and must change nothing. The target is
a `StallScenario` that both processes import by name. The first process runs it and is stopped with SIGSTOP at a gate;
its leases are rescued, and this process runs the scenario to its end; then the first one goes on. What `observe`
returns must be the same as without a stall.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from onceward.app import Onceward
from onceward.db import Database
from onceward.engine import Engine
from onceward.testing.stalled import StalledProcess, load_target
from onceward.testing.work import drain
from onceward.work import gate

T = TypeVar("T")

SILENT = """
select w.id, w.beat from onceward.workers w
union all
select distinct c.worker, null::bigint from onceward.claims c
 where not exists (select from onceward.workers w where w.id = c.worker)
"""
CUT_BLOCKERS = """
select pg_terminate_backend(s.pid) from pg_stat_activity s
 where s.application_name = $1 and s.state like 'idle in transaction%'
   and exists (select from pg_stat_activity b where s.pid = any(pg_blocking_pids(b.pid)))
"""
LOOK_EVERY_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class StallScenario(Generic[T]):
    """What is done to the database, by two processes that import this object by its name.

    `open` makes whatever the other functions are given, such as an engine. `run` does all that is due and returns;
    both processes call it. `observe` returns what must be the same however the work was interrupted: calls to the
    outside may be repeated, so count them once per idempotency key. `reset` undoes everything.
    """

    open: Callable[[Database], AbstractAsyncContextManager[T]]
    arrange: Callable[[T], Awaitable[object]]
    run: Callable[[T], Awaitable[object]]
    observe: Callable[[T], Awaitable[Any]]
    reset: Callable[[T], Awaitable[object]]


def app_scenario(
    app: Onceward,
    *,
    arrange: Callable[[Engine], Awaitable[object]],
    observe: Callable[[Engine], Awaitable[Any]],
    reset: Callable[[Engine], Awaitable[object]],
) -> StallScenario[Engine]:
    """The usual scenario: `arrange` enqueues work of an app, which is then run until nothing is due."""

    @asynccontextmanager
    async def open_engine(db: Database) -> AsyncGenerator[Engine]:
        yield Engine(db, app.registry)

    return StallScenario(open=open_engine, arrange=arrange, run=drain, observe=observe, reset=reset)


class _Passed:
    """Notes the gates that are passed."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, name: str) -> None:
        self.names.append(name)


async def stall_test(
    target: str,
    url: str,
    *,
    only: Collection[str] | None = None,
    most_gates: int = 200,
    within_s: float = 60.0,
) -> list[str]:
    """Run the scenario undisturbed, then once per gate with a stall there. Returns the gates at which it was stalled.

    `target` is `package.module:name` of a `StallScenario`. `only` limits it to the first pass of each gate named there.
    `within_s` is the time limit for each of the runs.
    """
    scenario: StallScenario[Any] = load_target(target)
    db = await Database.open(url)
    try:
        async with scenario.open(db) as host:
            expected, passed = await undisturbed(scenario, host)
            if len(passed) > most_gates:
                raise AssertionError(f"{target} passes {len(passed)} gates, more than the {most_gates} expected")
            numbers = _chosen(passed, only)
            async with _stalling(target, url) as process:
                for number in numbers:
                    async with asyncio.timeout(within_s):
                        await _one_stall(scenario, host, db, process, number, expected)
        return [passed[number - 1] for number in numbers]
    finally:
        await db.close()


async def undisturbed(scenario: StallScenario[Any], host: Any) -> tuple[Any, list[str]]:
    """What `observe` returns without a stall, and the gates that are passed on the way."""
    await scenario.arrange(host)
    counter = _Passed()
    gate.hook = counter
    try:
        await scenario.run(host)
    finally:
        gate.hook = None
    return await scenario.observe(host), counter.names


def _chosen(passed: list[str], only: Collection[str] | None) -> list[int]:
    if only is None:
        return list(range(1, len(passed) + 1))
    if missing := set(only) - set(passed):
        raise AssertionError(f"the scenario never comes to gate {min(missing)!r}; it passes {sorted(set(passed))}")
    return sorted(passed.index(name) + 1 for name in set(only))


@asynccontextmanager
async def _stalling(target: str, url: str) -> AsyncGenerator[StalledProcess]:
    process = await StalledProcess.start(target, url, application_name=f"stalled-{secrets.token_hex(4)}")
    try:
        yield process
    finally:
        process.end()


async def _one_stall(
    scenario: StallScenario[Any], host: Any, db: Database, process: StalledProcess, number: int, expected: Any
) -> None:
    await scenario.reset(host)
    await scenario.arrange(host)
    name = await process.run_until(number)
    try:
        await _take_over(scenario, host, db, process.application_name)
    finally:
        process.thaw()
    await process.finish()
    await scenario.run(host)  # what the first process gave back when it noticed
    seen = await scenario.observe(host)
    if seen != expected:
        raise AssertionError(
            f"a process frozen at gate {number} ({name}) changed the result when it went on:\n  {seen}\n"
            f"instead of\n  {expected}"
        )


async def _take_over(scenario: StallScenario[Any], host: Any, db: Database, application_name: str) -> None:
    """Rescue what the frozen process holds and finish it.

    Where it holds a lock that is in the way, its session is ended, as PostgreSQL does after
    `idle_in_transaction_session_timeout`.
    """

    async def rescue_and_run() -> None:
        await rescue_all(db)
        await scenario.run(host)

    running = asyncio.ensure_future(rescue_and_run())
    try:
        while not (await asyncio.wait({running}, timeout=LOOK_EVERY_S))[0]:
            await db.execute(CUT_BLOCKERS, application_name)
        running.result()
    finally:
        running.cancel()


async def rescue_all(db: Database) -> None:
    """What a rescuer does for every worker that it has found silent, without the wait."""
    for worker in await db.fetch(SILENT):
        await db.execute("select onceward.rescue($1, $2)", worker["id"], worker["beat"])
