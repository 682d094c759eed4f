"""The bounds of a list page. `onceward.windows` reads it."""

from __future__ import annotations

PAGE = 50
LONGER = 4
"""How many times as many rows a search examines that continues on request."""
BUDGET_S = 0.3
LONGER_S = 2.0

NEWEST = "select coalesce(pg_sequence_last_value('onceward.ids'), 0)"
