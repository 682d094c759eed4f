"""Crash a handler at every gate in turn, let it run again, and require the result of the undisturbed run.

    await crash_test(engine, arrange=..., observe=...)

A gate is a moment between two statements or commits. `Crash` is raised there as a BaseException that no handler
catches, the connection is cut as a dying process would, the lease is given back as a rescuer would, and the work is
run until it is finished. What `observe` returns must be the same as without a crash.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from onceward.engine import Engine
from onceward.testing.work import drain
from onceward.work import gate


class Crash(BaseException):
    """The process died here."""


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
) -> list[str]:
    """Run `arrange` and drain: undisturbed first, then once per gate with a crash there. Returns the gates passed.

    `reset` puts the database back to where it was before; `observe` returns whatever must come out the same.
    """
    await arrange()
    undisturbed = _Counter(None)
    await _drained(engine, undisturbed)
    expected = await observe()
    gates = list(undisturbed.passed)
    if len(gates) > most_gates:
        raise AssertionError(f"{len(gates)} gates are more than the {most_gates} that were expected")
    for number, name in enumerate(gates, start=1):
        await reset()
        await arrange()
        counter = _Counter(number)
        await _drained(engine, counter)
        seen = await observe()
        if seen != expected:
            raise AssertionError(
                f"a crash at gate {number} ({name}) changed the result:\n  {seen}\ninstead of\n  {expected}"
            )
    return gates


async def _drained(engine: Engine, counter: _Counter) -> None:
    """Drain with the hook set; after the crash the leases are given back and it goes on without one."""
    gate.hook = counter
    try:
        await drain(engine)
    except Crash:
        gate.hook = None
        await give_back(engine)
        await drain(engine)
    finally:
        gate.hook = None


async def give_back(engine: Engine) -> None:
    """What rescue does for the work of a dead worker, without waiting for it to be found dead."""
    await engine.db.execute(
        "update onceward.work set lease = null, claimed_at = null, slot = null, parent_slot = null where lease is not null"
    )
    await engine.db.execute(
        "update onceward.work set sort_at = least(sort_at, onceward.now()) where dead_reason is null and sort_at < 'infinity'"
    )
    await engine.db.execute("delete from onceward.claims")
