"""What the package contributes: email, Slack, SMS, WhatsApp, push, dashboard, and notices to administrators."""

from __future__ import annotations

from pathlib import Path

from onceward.feature import WORKER, AlsoKnownAs, Feature, Part, SealedColumn, Traced, unique_key

FEATURE = Feature(
    name="messages",
    after=("work",),
    migrations=Path(__file__).parent / "migrations",
    growth="onceward.messages.growth:GROWTH",
    functions=Path(__file__).parent / "functions",
    settings="onceward.messages.settings:MessagesSettings",
    move_back="onceward.move_back_messages",
    parts=(Part("message channels", "onceward.messages.parts:channels", roles=WORKER),),
    commands=("onceward.messages.commands:register",),
    routes="onceward.messages.routes:routers",
    queries="onceward.messages.parts:queries",
    pages="onceward.messages.pages:PAGES",
    checks="onceward.messages.checks:CHECKS",
    erasers="onceward.messages.erasers:ERASERS",
    sealed=(SealedColumn("onceward.mail_domains", "id", "private_key"),),
    traced=(
        Traced(
            "onceward.messages",
            "message",
            label="r.template",
            at="r.created_at",
            names=(unique_key(), AlsoKnownAs("r.reference = $1")),
        ),
        Traced("onceward.notices", "notice", label="r.type", at="r.created_at"),
    ),
    alerts=Path(__file__).parent / "alerts.yml",
    metrics="onceward.messages.metrics",
)
