"""Freeze a process at every gate in turn, let another one finish its work, resume the first, and compare results.

    gates = await stall_test("shop.stalls:order", database_url)

Other workers treat a frozen worker (a paused virtual machine, a long garbage collection, SIGSTOP) as dead: they rescue
and finish its work. When the frozen worker resumes, it must change nothing. The target is a `StallScenario` that both
processes import by name. The first process runs it and stops itself with SIGSTOP at a gate. The test process rescues
its leases and runs the scenario to the end; then the first process resumes. `observe` must return the same as without a
stall.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from onceward.app import Onceward
from onceward.background import spawn
from onceward.db import Database
from onceward.engine import Engine
from onceward.testing.stalled import StalledProcess, load_target
from onceward.testing.webhook_inbox import BOX
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
 where s.application_name = $1 and (s.state like 'idle in transaction%' or s.wait_event = 'ClientRead')
   and exists (select from pg_stat_activity b where s.pid = any(pg_blocking_pids(b.pid)))
"""
POLL_INTERVAL_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class StallScenario(Generic[T]):
    """The scenario of a stall test. Two processes import this object by its name.

    `open` creates the argument of the other functions, such as an engine. Both processes call `run`, which does all due
    work and returns. `observe` returns the result that a stall must not change; calls to external services may be
    repeated, so count them once per idempotency key. `reset` removes everything that the scenario created.
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
    """Return the usual scenario: `arrange` enqueues work of an app, and `run` drains its queues."""

    @asynccontextmanager
    async def open_engine(db: Database) -> AsyncGenerator[Engine]:
        yield Engine(db, app.registry, event_types=app.event_types, box=BOX)

    return StallScenario(open=open_engine, arrange=arrange, run=drain, observe=observe, reset=reset)


class _Passed:
    """Collects the names of the passed gates."""

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
    """Run the scenario without a stall, then once per gate with a stall there. Return the gates of the stalls.

    `target` is `package.module:name` of a `StallScenario`. `only` limits the test to the first pass of each named gate.
    `within_s` is the time limit of each run.
    """
    scenario: StallScenario[Any] = load_target(target)
    db = await Database.open(url)
    try:
        async with scenario.open(db) as host:
            expected, passed = await undisturbed(scenario, host)
            if len(passed) > most_gates:
                raise AssertionError(f"{target} passes {len(passed)} gates, more than most_gates={most_gates}")
            numbers = _chosen(passed, only)
            async with _stalling(target, url) as process:
                for number in numbers:
                    async with asyncio.timeout(within_s):
                        await _one_stall(scenario, host, db, process, number, expected)
        return [passed[number - 1] for number in numbers]
    finally:
        await db.close()


async def undisturbed(scenario: StallScenario[Any], host: Any) -> tuple[Any, list[str]]:
    """Run without a stall. Return the result of `observe` and the passed gates."""
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
        raise AssertionError(f"the scenario never passes gate {min(missing)!r}; it passes {sorted(set(passed))}")
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
    await scenario.run(host)  # Work that the first process released when it found its lease lost.
    actual = await scenario.observe(host)
    if actual != expected:
        raise AssertionError(
            f"a process frozen at gate {number} ({name}) changed the result when it resumed:\n  {actual}\n"
            f"instead of\n  {expected}"
        )


async def _take_over(scenario: StallScenario[Any], host: Any, db: Database, application_name: str) -> None:
    """Rescue and finish the work of the frozen process.

    If the frozen process holds a lock that blocks this one, its session is terminated, as PostgreSQL does after
    `idle_in_transaction_session_timeout`, and the rescuer if it stopped in the middle of a statement.
    """

    async def rescue_and_run() -> None:
        await rescue_all(db)
        await scenario.run(host)

    running = spawn(rescue_and_run())
    try:
        while not (await asyncio.wait({running}, timeout=POLL_INTERVAL_S))[0]:
            await db.execute(CUT_BLOCKERS, application_name)
        running.result()
    finally:
        running.cancel()


async def rescue_all(db: Database) -> None:
    """Rescue the work of all workers at once, without waiting for missed heartbeats."""
    for worker in await db.fetch(SILENT):
        await db.execute("select onceward.rescue($1, $2)", worker["id"], worker["beat"])
