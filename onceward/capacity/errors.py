"""The errors of capacity. None of them writes anything or aborts the transaction, which can continue.

CapacityError
├── CapacityRefused    places or units are not free; `refusals` says which, why and until when
├── UnknownPool        no pool of this organization has that key
├── UnknownUnit        the pool has no such unit, or a unit must be named
├── UnknownClaim       no claim of this organization has that id
└── PoolExists         another pool has this key
"""

from __future__ import annotations

from collections.abc import Sequence

from onceward.capacity.model import Refusal
from onceward.errors import OncewardError


class CapacityError(OncewardError):
    """The base of the errors of capacity. The message names the pool, unit or claim."""


class CapacityRefused(CapacityError):
    """A place or unit is not free, so nothing was claimed, extended or sold."""

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        self.refusals = tuple(refusals)
        super().__init__("; ".join(str(refusal) for refusal in refusals))


class UnknownPool(CapacityError):
    """The organization has no pool with this key. Open it first with `open_pool`."""


class UnknownUnit(CapacityError):
    """The pool was not opened with this unit, or the pool has named units and none was given."""


class UnknownClaim(CapacityError):
    """The claim does not exist, or belongs to another organization."""


class PoolExists(CapacityError):
    """The pool is already open. Change its capacity with `resize`."""
