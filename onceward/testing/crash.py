"""Crash a handler at every gate in turn, run it again, and require the result of a run without a crash.

    await crash_test(engine, arrange=..., observe=...)

A gate is a named moment between two statements or commits. The test raises `Crash` there, a BaseException that handlers
do not catch. It then closes the connection as a dying process would, releases the lease as a rescue would, and runs the
work until it is finished. `observe` must return the same as without a crash.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from onceward.engine import Engine
from onceward.errors import Signal
from onceward.testing.work import drain
from onceward.work import gate


class Crash(Signal):
    """A simulated crash of the process."""


class _Counter:
    def __init__(self, crash_at: int | None) -> None:
        self.passed: list[str] = []
        self._crash_at = crash_at

    def __call__(self, name: str) -> None:
        self.passed.append(name)
        if len(self.passed) == self._crash_at:
            raise Crash(name)


async def crash_test(
    engine: Engine,
    *,
    arrange: Callable[[], Awaitable[object]],
    observe: Callable[[], Awaitable[Any]],
    reset: Callable[[], Awaitable[object]],
    most_gates: int = 200,
    every: bool = True,
) -> list[str]:
    """Run `arrange` and drain: first without a crash, then once per gate with a crash there. Return the gates.

    `reset` restores the database to its state before `arrange`. `observe` returns the result that must not change.
    With `every=False` the crash happens at the first gate of each name only, which takes a fraction of the time.
    """
    await arrange()
    undisturbed = _Counter(None)
    await _drained(engine, undisturbed)
    expected = await observe()
    gates = list(undisturbed.passed)
    if len(gates) > most_gates:
        raise AssertionError(f"the run passes {len(gates)} gates, more than most_gates={most_gates}")
    for number, name in enumerate(gates, start=1):
        if not every and gates.index(name) < number - 1:
            continue
        await reset()
        await arrange()
        counter = _Counter(number)
        await _drained(engine, counter)
        actual = await observe()
        if actual != expected:
            raise AssertionError(
                f"a crash at gate {number} ({name}) changed the result:\n  {actual}\ninstead of\n  {expected}"
            )
    return gates


async def _drained(engine: Engine, counter: _Counter) -> None:
    """Drain with the hook set. After a crash, release the leases and drain without the hook."""
    gate.hook = counter
    try:
        await drain(engine)
    except* Crash:  # in a group, if it happened in one of several tasks
        gate.hook = None
        await give_back(engine)
        await drain(engine)
    finally:
        gate.hook = None


async def give_back(engine: Engine) -> None:
    """Release the work of a dead worker as a rescue does, without waiting for missed heartbeats."""
    await engine.db.execute(
        "update onceward.work set lease = null, claimed_at = null, slot = null, parent_slot = null"
        " where lease is not null"
    )
    await engine.db.execute(
        "update onceward.work set sort_at = least(sort_at, onceward.now()) where dead_reason is null"
        " and sort_at < 'infinity'"
    )
    await engine.db.execute("delete from onceward.claims")
