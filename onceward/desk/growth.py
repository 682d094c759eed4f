"""How each table of the feature `desk` is bounded, or why it is kept."""

from __future__ import annotations

GROWTH: dict[str, str] = {
    "onceward.desk_notes": "kept: written by people",
    "onceward.desk_views": "kept: one row for each view that people saved",
    "onceward.desk_runs": "kept: one row for each action on several rows",
}
