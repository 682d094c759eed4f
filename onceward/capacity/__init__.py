"""Capacity: claims on pools that cannot be oversold, for seats, cohort places, invites and waitlist offers."""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.capacity.checks import CHECKS
    from onceward.capacity.claims import claim, convert, extend, held_by, release
    from onceward.capacity.errors import (
        CapacityError,
        CapacityRefused,
        PoolExists,
        UnknownClaim,
        UnknownPool,
        UnknownUnit,
    )
    from onceward.capacity.model import Claim, Claimed, Pool, Refusal, Total, Want
    from onceward.capacity.pools import look, open_pool, reap, resize, total

__all__ = [
    "CHECKS",
    "CapacityError",
    "CapacityRefused",
    "Claim",
    "Claimed",
    "Pool",
    "PoolExists",
    "Refusal",
    "Total",
    "UnknownClaim",
    "UnknownPool",
    "UnknownUnit",
    "Want",
    "claim",
    "convert",
    "extend",
    "held_by",
    "look",
    "open_pool",
    "reap",
    "release",
    "resize",
    "total",
]

__getattr__ = lazy(__name__, __file__)
