"""How each table of the feature `look` is bounded, or why it is kept."""

from __future__ import annotations

GROWTH: dict[str, str] = {"onceward.organization_looks": "kept: one row for each organization"}
