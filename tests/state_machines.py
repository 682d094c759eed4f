"""Property tests that call the database: Hypothesis is synchronous, so each machine has an event loop of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar, cast

from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from onceward.db import Database

T = TypeVar("T")
ALL_HEALTH_CHECKS = cast("list[HealthCheck]", list(HealthCheck))


class DatabaseMachine(RuleBasedStateMachine):
    """A state machine with a pool on the test's database."""

    url: str

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.db = self.run(Database.open(self.url, max_size=3))

    def run(self, work: Awaitable[T]) -> T:
        async def wait() -> T:
            return await work

        return self.runner.run(wait())

    def teardown(self) -> None:
        self.run(self.db.close())
        self.runner.close()


def check_machine(machine: type[DatabaseMachine], url: str, *, thorough: bool) -> None:
    """Run random sequences of the machine's rules on the database at `url`."""
    run_state_machine_as_test(
        type(machine.__name__, (machine,), {"url": url}),
        settings=settings(
            max_examples=60 if thorough else 5,
            stateful_step_count=20,
            deadline=None,
            database=None,
            suppress_health_check=ALL_HEALTH_CHECKS,
        ),
    )
