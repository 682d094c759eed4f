"""Crash a handler of the ticket shop at any statement or gate."""

from __future__ import annotations

from typing import Any

import pytest

from onceward import Tx
from onceward.testing import Crash, give_back
from onceward.work import gate
from tests.ticketing.office import Office

VERBS = ("fetch", "fetchrow", "fetchval", "execute")


class CrashAt:
    """Crashes at the nth statement or gate; without n it only counts them."""

    def __init__(self, at: int | None) -> None:
        self.passed: list[str] = []
        self.at = at

    def __call__(self, name: str) -> None:
        self.passed.append(name)
        if len(self.passed) == self.at:
            raise Crash(name)


def install(patch: pytest.MonkeyPatch, counter: CrashAt) -> None:
    """Put the counter before every statement of a handler and at every gate of the engine."""
    for verb in VERBS:
        real = getattr(Tx, verb)

        def counted(real: Any) -> Any:
            async def run(self: Any, query: str, *args: Any) -> Any:
                counter(query.strip().split("\n")[0][:60])
                return await real(self, query, *args)

            return run

        patch.setattr(Tx, verb, counted(real))
    patch.setattr(gate, "hook", counter)


async def deliver(office: Office, payload: dict[str, Any], at: int | None) -> list[str]:
    """Deliver a webhook with a crash at the nth statement or gate, then again as the payment service does.

    Returns the statements and gates that the first delivery passed.
    """
    counter = CrashAt(at)
    with pytest.MonkeyPatch.context() as patch:
        install(patch, counter)
        try:
            await office.webhook(payload)
            await office.drain()
        except Crash:
            pass
    await give_back(office.engine)
    reply = await office.webhook(payload)
    assert reply.status == 200, reply
    await office.drain()
    return counter.passed
