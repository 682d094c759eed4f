"""The feature `process`: the commands that run an app, and the watches over its clock and its disk."""

from __future__ import annotations

from pathlib import Path

from onceward.feature import Feature, Part

FEATURE = Feature(
    name="process",
    parts=(
        Part("clock", "onceward.process.clock:clock_watch"),
        Part("disk", "onceward.process.disk:disk_watch"),
    ),
    commands=("onceward.process.commands:register",),
    metrics="onceward.process.metrics",
    alerts=Path(__file__).parent / "alerts.yml",
)
