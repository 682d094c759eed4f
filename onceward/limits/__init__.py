"""Limits: admission slots per key, a global limit that follows the load, and rate limits."""
# pyright: reportUnusedImport=false

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:  # names that are not in `__all__` are internal
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
        release,
        reserve,
        set_global,
        want,
    )
    from onceward.limits.rate import Rate, forget_idle

__all__ = [
    "GLOBAL",
    "Limit",
    "Rate",
    "Refusal",
    "release",
    "reserve",
    "want",
]

__getattr__ = lazy(__name__, __file__)
