"""The engine's lines of migrations, in the order in which they build on each other."""

from __future__ import annotations

from pathlib import Path

from onceward.db import Line

ORDER = (
    "trust",
    "work",
    "limits",
    "inbox",
    "schedules",
    "messages",
    "outbox",
    "live",
    "capacity",
    "ledger",
    "workflows",
    "web",
)
"""Packages that own tables; one that has none yet is passed over."""

LINES: tuple[Line, ...] = tuple(
    Line(owner, directory) for owner in ORDER if (directory := Path(__file__).parent / owner / "migrations").is_dir()
)
