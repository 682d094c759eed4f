"""How each table of the feature `schedules` is bounded, or why it is kept."""

from __future__ import annotations

GROWTH: dict[str, str] = {
    "onceward.schedules": "kept: one row for each schedule",
    "onceward.runs": "deleted by `prune runs` after ONCEWARD_RETENTION_DAYS",
    "onceward.run_items": "deleted with their run by `prune runs`",
    "onceward.run_parts": "deleted with their run by `prune runs`",
}
