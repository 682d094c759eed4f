"""What the database contributes: commands to migrate, move and look at the data."""

from __future__ import annotations

from onceward.feature import Feature

FEATURE = Feature(
    name="db",
    commands=("onceward.db.commands:register",),
)
