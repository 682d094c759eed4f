"""The state machine: Hypothesis chooses verbs and disturbances, and shrinks what fails to a short script."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, ClassVar, NamedTuple, TypeVar

import hypothesis
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from onceward.testing import TestDatabases
from tests.crossings.verbs import Burst, Verb, causes, operations
from tests.crossings.versions import Version
from tests.crossings.world import World
from tests.state_machines import ALL_HEALTH_CHECKS

T = TypeVar("T")
MOST_NODES = 3


class Reached(NamedTuple):
    """How many attempts shared their commit with others, and how often row locks limited the groups of a task."""

    shared: int
    limited: int


class Crossings(RuleBasedStateMachine):
    """One example: a database of its own, the verbs in any order, and in the end everything has ended."""

    databases: ClassVar[TestDatabases]
    reached: ClassVar[list[Reached]]
    """What each example reached."""

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self._url = self.databases.create()
        self._failed = False
        self.world = World(self._url)
        self._run(self.world.open())

    def _run(self, work: Awaitable[T]) -> T:
        async def wait() -> T:
            return await work

        try:
            return self._runner.run(wait())
        except BaseException:
            self._failed = True
            raise

    @initialize(version=st.sampled_from(["old", "new"]))
    def begin(self, version: Version) -> None:
        self._run(self.world.start_node(version))
        self._run(Burst(12).do(self.world))
        self._run(Burst(16, "count", owners=2).do(self.world))

    # -- verbs --------------------------------------------------------------------------------------------------

    @rule(cause=causes)
    def cause(self, cause: Verb) -> None:
        self._run(cause.do(self.world))

    @rule(operation=operations)
    def operate(self, operation: Verb) -> None:
        self._run(operation.do(self.world))

    @rule(verbs=st.lists(causes | operations, min_size=2, max_size=8))
    def together(self, verbs: list[Verb]) -> None:
        """Several callers at the same time."""

        async def all_of_them() -> None:
            await asyncio.gather(*(verb.do(self.world) for verb in verbs))

        self._run(all_of_them())

    @rule()
    def settle(self) -> None:
        self._run(self.world.settle())

    # -- nodes ------------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.world.nodes) < MOST_NODES)
    @rule(version=st.sampled_from(["old", "new"]))
    def deploy(self, version: Version) -> None:
        self._run(self.world.start_node(version))

    @precondition(lambda self: any(not node.frozen for node in self.world.nodes))
    @rule(which=st.integers(0, MOST_NODES - 1))
    def stop(self, which: int) -> None:
        alive = [node for node in self.world.nodes if not node.frozen]
        self._run(self.world.stop_node(alive[which % len(alive)]))

    @precondition(lambda self: bool(self.world.nodes))
    @rule(which=st.integers(0, MOST_NODES - 1))
    def kill(self, which: int) -> None:
        self._run(self.world.kill_node(self.world.nodes[which % len(self.world.nodes)]))

    @precondition(lambda self: any(not node.frozen for node in self.world.nodes))
    @rule(which=st.integers(0, MOST_NODES - 1))
    def freeze(self, which: int) -> None:
        alive = [node for node in self.world.nodes if not node.frozen]
        self.world.freeze_node(alive[which % len(alive)])

    @precondition(lambda self: any(node.frozen for node in self.world.nodes))
    @rule()
    def thaw(self) -> None:
        for node in self.world.nodes:
            if node.frozen:
                node.thaw()

    def teardown(self) -> None:
        try:
            if not self._failed:
                self._run(self.world.finish())
                self.reached.append(Reached(self.world.shared, self.world.limited))
        finally:
            self._run(self.world.close())
            self._runner.close()
            self.databases.release(self._url)


def check_crossings(
    databases: TestDatabases, *, seed: int | None, examples: int, steps: int, shrinks: bool = False
) -> Reached:
    """Run random sequences of verbs. Return what they reached. With a seed the choices are the same each time; the timing is not.

    Shrinking runs a failing example dozens of times, which takes minutes.
    """
    machine: Any = type("Crossings", (Crossings,), {"databases": databases, "reached": (reached := list[Reached]())})
    if seed is not None:
        machine = hypothesis.seed(seed)(machine)
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            print_blob=False,
            phases=(Phase.generate, Phase.shrink) if shrinks else (Phase.generate,),
            suppress_health_check=ALL_HEALTH_CHECKS,
        ),
    )
    return Reached(sum(each.shared for each in reached), sum(each.limited for each in reached))
