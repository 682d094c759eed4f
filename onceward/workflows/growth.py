"""How each table of the feature `workflows` is bounded, or why it is kept."""

from __future__ import annotations

GROWTH: dict[str, str] = {
    "onceward.workflows": (
        "deleted by `workflow upkeep` after ONCEWARD_RETENTION_DAYS; those with a key stay, against a second start"
    ),
    "onceward.workflow_steps": "deleted with or stripped from their workflow by `workflow upkeep`",
    "onceward.workflow_signals": "deleted with their workflow by `workflow upkeep`",
    "onceward.workflow_rates": "kept: one row for each step with a rate",
}
