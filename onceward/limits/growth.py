"""How each table of the feature `limits` is bounded, or why it is kept."""

from __future__ import annotations

GROWTH: dict[str, str] = {
    "onceward.limits": "kept: one row for each limit",
    "onceward.limit_changes": "kept: written when an operator or the adaptive limit changes a limit",
    "onceward.limit_slots": "deleted when the job ends, or by `limit reconciliation`",
    "onceward.rates": "deleted by `idle rates` after an hour",
}
