"""The feature `web`: the HTTP server and the dashboard's own pages."""

from __future__ import annotations

from pathlib import Path

from onceward.feature import WEB, Feature, Part

FEATURE = Feature(
    name="web",
    after=("inbox",),
    migrations=Path(__file__).parent / "migrations",
    functions=Path(__file__).parent / "functions",
    parts=(
        Part("dashboard", "onceward.web.parts:dashboard", roles=WEB, stage="base"),
        Part("web server", "onceward.web.parts:server", roles=WEB, stage="web"),
    ),
    routes="onceward.web.parts:routers",
    pages="onceward.web.dashboard.pages:PAGES",
    queries="onceward.web.parts:queries",
    metrics="onceward.web.metrics",
    errors=("onceward.web.server:CannotListen",),
)
