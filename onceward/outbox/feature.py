"""The outbox feature: webhooks to the endpoints of customers."""

from __future__ import annotations

from pathlib import Path

from onceward.feature import AlsoKnownAs, Feature, Part, SealedColumn, Traced, unique_key

FEATURE = Feature(
    name="outbox",
    after=("work", "messages", "inbox"),
    migrations=Path(__file__).parent / "migrations",
    growth="onceward.outbox.growth:GROWTH",
    functions=Path(__file__).parent / "functions",
    settings="onceward.outbox.settings:OutboxSettings",
    parts=(Part("outbox", "onceward.outbox.parts:outbox"),),
    commands=("onceward.outbox.commands:register",),
    routes="onceward.outbox.routes:routers",
    error_handlers="onceward.outbox.routes:add_error_handlers",
    pages="onceward.outbox.pages:PAGES",
    configuration="onceward.outbox.configuration:SECTIONS",
    checks="onceward.outbox.checks:CHECKS",
    erasers="onceward.outbox.erasers:ERASERS",
    traced=(
        Traced(
            "onceward.published",
            "publication",
            label="r.type",
            at="r.created_at",
            names=(AlsoKnownAs("r.message_id = $1"), unique_key()),
        ),
        Traced("onceward.deliveries", "delivery", label="r.type", at="r.created_at", state="r.status"),
    ),
    sealed=(
        SealedColumn("onceward.endpoints", "endpoint_id", "headers"),
        SealedColumn("onceward.endpoints", "endpoint_id", "auth"),
        SealedColumn("onceward.endpoint_secrets", "secret_id", "secret"),
    ),
    metrics="onceward.outbox.metrics",
    errors=("onceward.outbox.errors:OutboxError",),
)
