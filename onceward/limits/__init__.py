"""Limits on top of lanes: admission slots (refused when full), tiers, and a global limit that follows the load."""

from onceward.limits.adaptive import AdaptiveLimit, Bounds, Load, decide
from onceward.limits.admission import (
    GLOBAL,
    Held,
    Limit,
    LimitReached,
    held,
    note_refusal,
    reconcile,
    reserve,
    set_global,
)
from onceward.limits.early import EarlyRefusal
from onceward.limits.tiers import TIERS, Tiers

__all__ = [
    "GLOBAL",
    "TIERS",
    "AdaptiveLimit",
    "Bounds",
    "EarlyRefusal",
    "Held",
    "Limit",
    "LimitReached",
    "Load",
    "Tiers",
    "decide",
    "held",
    "note_refusal",
    "reconcile",
    "reserve",
    "set_global",
]
