"""The demo never calls a real service, not even with work that an earlier run left."""

from __future__ import annotations

from onceward.feature import EVERY_ROLE
from onceward.runtime import FEATURES
from onceward_apps import demo


def test_the_simulated_services_are_open_before_a_worker_starts() -> None:
    parts = [(part.name, part.stage) for part in FEATURES.plus(demo.app.features()).parts(EVERY_ROLE)]
    opened = parts.index(("simulated services", "base"))
    assert all(stage == "base" for _name, stage in parts[:opened])
    assert any(stage == "worker" for _name, stage in parts[opened:])


def test_every_demo_opens_its_services_early() -> None:
    made = {part.make for part in demo.app.features()[-1].parts}
    assert len(demo.DEMOS) == 5
    assert {demo.TicketingDemo, demo.EngagementDemo, demo.CoursegenDemo} <= made
    assert all(callable(getattr(each, "open_services", None)) for each in demo.DEMOS)
