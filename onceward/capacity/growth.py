"""How each table of the feature `capacity` is bounded, or why it is kept."""

from __future__ import annotations

GROWTH: dict[str, str] = {
    "onceward.capacity_groups": "kept: one row for each group of pools",
    "onceward.capacity_totals": "kept: one row for each group",
    "onceward.capacity_pools": "kept: one row for each pool that an app declares",
    "onceward.capacity_units": "kept: one row for each unit of a pool",
    "onceward.capacity_claims": (
        "kept: what was taken, which the app settles; expired holds are released by `expired holds`"
    ),
}
