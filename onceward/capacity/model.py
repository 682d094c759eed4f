"""The values of capacity: pools, wants, claims and refusals."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

State = Literal["held", "sold", "released", "expired"]
Reason = Literal["full", "closed", "taken", "released"]


@dataclass(frozen=True, slots=True)
class Want:
    """A request for `quantity` places of a pool, or for one named unit."""

    pool: str
    quantity: int = 1
    unit: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.quantity, bool) or not isinstance(self.quantity, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"quantity of {self.pool!r} is {self.quantity!r}: give a whole number")
        if not 1 <= self.quantity <= 2**31 - 1:
            raise ValueError(f"quantity of {self.pool!r} is {self.quantity}: it must be 1 or more")
        if self.unit is not None and self.quantity != 1:
            raise ValueError(
                f"quantity of unit {self.unit!r} of {self.pool!r} is {self.quantity}: for a named unit it must be 1"
            )


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool. A `capacity` of None is unlimited, 0 is closed. `held` counts holds that have not expired."""

    id: int
    key: str
    capacity: int | None
    held: int
    sold: int
    named: bool

    @property
    def free(self) -> int | None:
        """The number of free places; None if unlimited. Never negative, even after the capacity was lowered."""
        return None if self.capacity is None else max(0, self.capacity - self.held - self.sold)


@dataclass(frozen=True, slots=True)
class Total:
    """The sums of the pools of a group. Pools without a limit add nothing to `capacity`."""

    capacity: int
    held: int
    sold: int


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim on units of a pool: held until it is kept, released or has expired."""

    id: int
    pool: str
    unit: str | None
    quantity: int
    holder: str
    state: State
    until: datetime | None


@dataclass(frozen=True, slots=True)
class Claimed:
    """The claims made. Pass `ids` to `extend`, `convert` and `release`. `until` is None for sold claims."""

    ids: tuple[int, ...]
    until: datetime | None


@dataclass(frozen=True, slots=True)
class Refusal:
    """One refused want. `until` is when enough holds will have ended; None if waiting does not help."""

    pool: str
    unit: str | None
    reason: Reason
    requested: int
    free: int
    until: datetime | None

    def __str__(self) -> str:
        what = f"unit {self.unit} of {self.pool}" if self.unit is not None else f"{self.requested} of {self.pool}"
        match self.reason:
            case "taken":
                return f"{what} is " + ("sold" if self.until is None else f"held until {self.until:%Y-%m-%d %H:%M:%S}")
            case "released":
                return f"{what} was released: claim it again"
            case "closed":
                return f"{self.pool} is closed"
            case "full":
                wait = "" if self.until is None else f", enough holds end by {self.until:%Y-%m-%d %H:%M:%S}"
                return f"{what} requested, {self.free} free{wait}"
