"""The feature `process`: the commands that run an app, and the watch over its clock."""

from __future__ import annotations

from pathlib import Path

from onceward.feature import Feature, Part

FEATURE = Feature(
    name="process",
    parts=(Part("clock", "onceward.process.clock:clock_watch"),),
    commands=("onceward.process.commands:register",),
    metrics="onceward.process.metrics",
    alerts=Path(__file__).parent / "alerts.yml",
)
