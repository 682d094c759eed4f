"""Tiers: the number of slots per user, by the plan of the user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from onceward.limits import Limit

TIERS: Mapping[str, int] = MappingProxyType({"FREE": 1, "BASIC": 2, "STANDARD": 3, "PREMIUM": 5})


@dataclass(frozen=True, slots=True)
class Tiers:
    """The slots of each tier, such as `Tiers.parse("FREE=1,BASIC=2")`. An unknown tier gets the smallest number."""

    at_most: Mapping[str, int] = field(default_factory=lambda: TIERS)

    def __post_init__(self) -> None:
        if not self.at_most:
            raise ValueError("at least one tier is needed, such as FREE=1")
        for name, number in self.at_most.items():
            if number < 1:
                raise ValueError(f"tier {name} must allow at least 1, not {number}")

    @classmethod
    def parse(cls, text: str) -> Tiers:
        """Parse `NAME=number` pairs separated by commas. An empty text gives the default tiers."""
        slots: dict[str, int] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, _, number = part.partition("=")
            if not name.strip() or not number.strip().isdigit():
                raise ValueError(f"tier {part!r} must have the form NAME=number, such as FREE=1")
            slots[name.strip().upper()] = int(number)
        return cls(slots or TIERS)

    def of(self, tier: str | None) -> int:
        return self.at_most.get((tier or "").upper(), min(self.at_most.values()))

    def limit(self, key: str, tier: str | None) -> Limit:
        """Return the limit of one user: `tiers.limit(f"user:{id}", user.tier)`."""
        return Limit(key, self.of(tier))

    def head_start_s(self, tier: str | None) -> int:
        """Return how far ahead in the line a tier starts: 15 minutes for each step above the smallest tier."""
        steps = sorted(set(self.at_most.values()))
        return 900 * steps.index(self.of(tier))
