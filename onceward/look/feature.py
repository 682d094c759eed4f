"""The feature `look`: the colours and components of all pages, and the colour and logo of each organization."""

from __future__ import annotations

from pathlib import Path

from onceward.feature import Feature

FEATURE = Feature(
    name="look",
    after=("desk",),
    migrations=Path(__file__).parent / "migrations",
    growth="onceward.look.growth:GROWTH",
    pages="onceward.look.pages:PAGES",
    routes="onceward.look.routes:routers",
    erasers="onceward.look.erasers:ERASERS",
)
