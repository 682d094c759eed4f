"""Invariants that `onceward verify` can check on a live database at any time.

A check is a coroutine that changes nothing and returns one line for each problem. A package names its list of checks in
its `feature.py`.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from onceward.db import FAILED, Connection, Database

CheckFunction = Callable[[Connection], Awaitable[Sequence[str]]]


@dataclass(frozen=True, slots=True)
class Check:
    """One invariant. `name` is `<package>.<invariant>`."""

    name: str
    run: CheckFunction


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a check. The invariant holds if there are no problems."""

    name: str
    problems: tuple[str, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        return not self.problems


async def verify(db: Database, checks: Iterable[Check], *, timeout_s: float = 300.0) -> list[Result]:
    """Run the checks one after another, each in its own snapshot. A check that raises counts as a problem."""
    results: list[Result] = []
    async with db.acquire() as conn:
        for check in checks:
            started = time.perf_counter()
            problems = await _run(conn, check, timeout_s)
            results.append(Result(check.name, problems, time.perf_counter() - started))
    return results


async def _run(conn: Connection, check: Check, timeout_s: float) -> tuple[str, ...]:
    try:
        async with conn.transaction(isolation="repeatable_read", readonly=True):
            await conn.execute(f"set local statement_timeout = {int(timeout_s * 1000)}")
            return tuple(await check.run(conn))
    except FAILED as error:
        return (f"the check itself failed: {type(error).__name__}: {error}",)
