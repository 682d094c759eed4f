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

ROLES = Path(__file__).parent / "trust" / "roles.sql"
"""Makes the database roles, which belong to the server and not to a dump: before migrations and before a restore."""

LINES: tuple[Line, ...] = tuple(
    Line(owner, directory, before=ROLES if owner == "trust" else None)
    for owner in ORDER
    if (directory := Path(__file__).parent / owner / "migrations").is_dir()
)
