"""Declare what the inbox contributes: incoming webhooks."""

from __future__ import annotations

from pathlib import Path

from onceward.feature import AlsoKnownAs, Feature, Part, SealedColumn, Traced

FEATURE = Feature(
    name="inbox",
    after=("work", "messages"),
    migrations=Path(__file__).parent / "migrations",
    growth="onceward.inbox.growth:GROWTH",
    functions=Path(__file__).parent / "functions",
    settings="onceward.inbox.settings:InboxSettings",
    parts=(Part("inbox", "onceward.inbox.parts:inbox"),),
    commands=("onceward.inbox.commands:register",),
    routes="onceward.inbox.routes:routers",
    mounts="onceward.inbox.parts:mounts",
    pages="onceward.inbox.pages:PAGES",
    configuration="onceward.inbox.configuration:SECTIONS",
    checks="onceward.inbox.checks:CHECKS",
    erasers="onceward.inbox.erasers:ERASERS",
    traced=(
        Traced(
            "onceward.webhook_events",
            "event",
            id="seq",
            label="r.provider || ' ' || r.type",
            at="r.received_at",
            state="r.status",
            names=(
                AlsoKnownAs("r.id = $1::uuid", uuid=True),
                AlsoKnownAs("r.seq = any(array(select onceward.events_named($1)))"),
            ),
        ),
    ),
    sealed=(SealedColumn("onceward.sources", "webhook_id", "secrets"),),
    metrics="onceward.inbox.metrics",
    alerts=Path(__file__).parent / "alerts.yml",
    sqlstates="onceward.inbox.sqlstates:SQLSTATES",
)
