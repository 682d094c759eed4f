"""The testing kit: run work without a worker, assert effects, set the clock, crash or freeze a process at every
gate."""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.testing.assertions import (
        BroadcastMessage,
        PublishedEvent,
        SentMessage,
        assert_broadcast,
        assert_enqueued,
        assert_not_enqueued,
        assert_published,
        assert_sent,
    )
    from onceward.testing.clock import FrozenClock
    from onceward.testing.crash import Crash, crash_test, give_back
    from onceward.testing.databases import TestDatabases, TestServer
    from onceward.testing.payments import payments_test
    from onceward.testing.polling import until
    from onceward.testing.rehearsal import assert_effects, rehearse
    from onceward.testing.simulation import RecordingChannel, Simulation, simulated
    from onceward.testing.stall import StallScenario, app_scenario, stall_test
    from onceward.testing.webhook_inbox import TestInbox, WebhookResponse
    from onceward.testing.work import drain, perform

__all__ = [
    "BroadcastMessage",
    "Crash",
    "FrozenClock",
    "PublishedEvent",
    "RecordingChannel",
    "SentMessage",
    "Simulation",
    "StallScenario",
    "TestDatabases",
    "TestInbox",
    "TestServer",
    "WebhookResponse",
    "app_scenario",
    "assert_broadcast",
    "assert_effects",
    "assert_enqueued",
    "assert_not_enqueued",
    "assert_published",
    "assert_sent",
    "crash_test",
    "drain",
    "give_back",
    "payments_test",
    "perform",
    "rehearse",
    "simulated",
    "stall_test",
    "until",
]

__getattr__ = lazy(__name__, __file__)
