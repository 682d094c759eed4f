"""The live feature: live queries, topics, presence."""

from __future__ import annotations

from pathlib import Path

from onceward.feature import WEB, Feature, Part, Traced

FEATURE = Feature(
    name="live",
    after=("work",),
    migrations=Path(__file__).parent / "migrations",
    growth="onceward.live.growth:GROWTH",
    functions=Path(__file__).parent / "functions",
    settings="onceward.live.settings:LiveSettings",
    parts=(
        Part("live wake-ups", "onceward.live.parts:wake_ups"),
        Part("live", "onceward.live.parts:node", roles=WEB, stage="web"),
    ),
    commands=("onceward.live.commands:register",),
    mounts="onceward.live.parts:mounts",
    pages="onceward.live.pages:PAGES",
    erasers="onceward.live.erasers:ERASERS",
    traced=(Traced("onceward.topic_messages", "broadcast", label="r.topic", at="r.created_at", state="'sent'"),),
    metrics="onceward.live.metrics",
)
