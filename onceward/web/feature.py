"""The feature `web`: the HTTP server and the dashboard's own pages."""

from __future__ import annotations

from pathlib import Path

from onceward.feature import WEB, Feature, Part, SealedColumn

FEATURE = Feature(
    name="web",
    after=("inbox",),
    migrations=Path(__file__).parent / "migrations",
    growth="onceward.web.growth:GROWTH",
    functions=Path(__file__).parent / "functions",
    settings="onceward.web.settings:WebSettings",
    parts=(
        Part("dashboard", "onceward.web.parts:dashboard", roles=WEB, stage="base"),
        Part("expired idempotency keys", "onceward.web.parts:expired_keys", roles=WEB, stage="base"),
        Part("web server", "onceward.web.parts:server", roles=WEB, stage="web"),
        Part("health server", "onceward.web.health_server:health_server", stage="app"),
    ),
    routes="onceward.web.parts:routers",
    pages="onceward.web.dashboard.pages:PAGES",
    erasers="onceward.web.erasers:ERASERS",
    sealed=(SealedColumn("onceward.idempotency_keys", "id", "body"),),
    queries="onceward.web.parts:queries",
    metrics="onceward.web.metrics",
    errors=("onceward.web.server:CannotListen",),
)
