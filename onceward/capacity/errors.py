"""What capacity refuses, by name. None of these harms the transaction: nothing was written, and it can go on.

CapacityError
├── Refused            what was wanted is not free: which, why and until when
├── UnknownPool        no pool of this organization has that key
├── UnknownUnit        the pool has no such unit, or a unit must be named
├── UnknownClaim       no claim of this organization has that id
└── PoolExists         the key is taken by another pool
"""

from __future__ import annotations

from collections.abc import Sequence

from onceward.capacity.model import Refusal


class CapacityError(Exception):
    """The message names the pool, unit or claim."""


class Refused(CapacityError):
    """All or nothing: none of the wants was claimed."""

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        self.refusals = tuple(refusals)
        super().__init__("; ".join(str(refusal) for refusal in refusals))


class UnknownPool(CapacityError):
    """Open it first (`open_pool`)."""


class UnknownUnit(CapacityError):
    """A pool with named units is claimed by unit, from the units it was opened with."""


class UnknownClaim(CapacityError):
    """It does not exist, or belongs to another organization."""


class PoolExists(CapacityError):
    """Change it with `resize`."""
