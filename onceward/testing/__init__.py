"""The testing kit: run work without a worker, wait for a condition, set the clock, crash or freeze a process at every gate."""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.testing.clock import FrozenClock
    from onceward.testing.crash import Crash, crash_test, give_back
    from onceward.testing.stall import StallScenario, app_scenario, stall_test
    from onceward.testing.waiting import until
    from onceward.testing.work import assert_enqueued, drain, perform

__all__ = [
    "Crash",
    "FrozenClock",
    "StallScenario",
    "app_scenario",
    "assert_enqueued",
    "crash_test",
    "drain",
    "give_back",
    "perform",
    "stall_test",
    "until",
]

__getattr__ = lazy(__name__, __file__)
