"""How each table of the feature `rehearsal` is bounded, or why it is kept."""

from __future__ import annotations

GROWTH: dict[str, str] = {"onceward.rehearsal_seals": "kept: always empty, because its rows are never committed"}
