"""The feature `desk`: where the people of an app work. Apps declare lists, pages, forms, actions and charts."""

from __future__ import annotations

from pathlib import Path

from onceward.feature import Feature

FEATURE = Feature(
    name="desk",
    after=("web", "messages", "workflows"),
    migrations=Path(__file__).parent / "migrations",
    growth="onceward.desk.growth:GROWTH",
    pages="onceward.desk.site:PAGES",
    erasers="onceward.desk.erasers:ERASERS",
    errors=("onceward.desk.errors:WrongDesk",),
)
