"""The feature `db`: commands that migrate, move and inspect the data."""

from __future__ import annotations

from onceward.feature import Feature

FEATURE = Feature(
    name="db",
    commands=("onceward.db.commands:register",),
)
