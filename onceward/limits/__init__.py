"""Limits: admission slots per key, tiers, a global limit that follows the load, and rate limits."""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.limits.adaptive import AdaptiveLimit, Bounds, Load, decide
    from onceward.limits.admission import (
        GLOBAL,
        Held,
        Limit,
        LimitReached,
        Refusal,
        held,
        note_refusal,
        reconcile,
        reserve,
        set_global,
    )
    from onceward.limits.early import EarlyRefusal
    from onceward.limits.rate import Rate, forget_idle
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
    "Rate",
    "Refusal",
    "Tiers",
    "decide",
    "forget_idle",
    "held",
    "note_refusal",
    "reconcile",
    "reserve",
    "set_global",
]

__getattr__ = lazy(__name__, __file__)
