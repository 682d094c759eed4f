"""How each table of the feature `web` is bounded, or why it is kept."""

from __future__ import annotations

GROWTH: dict[str, str] = {
    "onceward.idempotency_keys": "deleted by `expired idempotency keys` after a day",
}
