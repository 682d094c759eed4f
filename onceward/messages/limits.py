"""Exact limits across all workers: a send reserves its moment in the database and waits for it.

One statement returns the moment and moves the next one on, so N per period is N and never N + 1. A moment is good for
100 ms; who comes later (a slow machine, a long pause) reserves anew. The interval between moments is the period
divided by N plus that slack, so that the limit holds where it is measured: at the service.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from onceward.db import Database
from onceward.messages.errors import NotYet

VALID_S = 0.1
LONGEST_VALID_S = 2.0
JITTER_S = 0.05
"""How much later than another a send may arrive at the service over a network that is not our own."""
MOST_MISSED = 20
PATIENCE_S = 5.0
"""How long a send waits for a limit of its own recipient before it makes room for others."""

Scope = Literal["channel", "sender", "recipient"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """At most `count` within any `per_s` seconds, for the channel, for each sender or for each recipient."""

    count: int
    per_s: float
    scope: Scope = "sender"

    def __post_init__(self) -> None:
        if self.count < 1 or not self.per_s > 0:
            raise ValueError(f"a limit needs count >= 1 and per_s > 0, not {self.count} per {self.per_s} s")

    @property
    def valid_s(self) -> float:
        """How late a send may be: 100 ms, and more where the interval is long and missing a slot would cost much."""
        return min(LONGEST_VALID_S, max(VALID_S, self.per_s / self.count * 0.05))

    @property
    def every_s(self) -> float:
        return (self.per_s + self.valid_s + JITTER_S) / self.count

    def key(self, channel: str, sender: str, recipient: str) -> str:
        period = f"{self.count}/{self.per_s:g}s"
        match self.scope:
            case "channel":
                return f"{channel} {period}"
            case "sender":
                return f"{channel} from {sender} {period}"
            case "recipient":
                # Addresses do not belong into a table of counters.
                return f"{channel} to {hashlib.sha256(recipient.encode()).hexdigest()[:32]} {period}"


@dataclass(frozen=True, slots=True)
class Slot:
    """The moment at which a send may begin, on this process' own clock."""

    at: float
    valid_s: float = VALID_S

    @property
    def late(self) -> bool:
        return time.monotonic() - self.at > self.valid_s


class Limits:
    """The limits of each channel; without any a send costs nothing here."""

    def __init__(self, db: Database, limits: Mapping[str, Sequence[Limit]]) -> None:
        self._db = db
        self._limits = limits

    async def wait(self, channel: str, sender: str, recipient: str) -> Slot | None:
        """Return when the send may begin. Raises NotYet if the recipient's own limit says: much later."""
        limits = self._limits.get(channel)
        if not limits:
            return None
        asked = time.monotonic()
        row = await self._db.fetchrow(
            "select * from onceward.reserve_send($1, $2, $3)",
            [each.key(channel, sender, recipient) for each in limits],
            [each.every_s for each in limits],
            [PATIENCE_S if each.scope == "recipient" else 86400.0 for each in limits],
        )
        assert row is not None
        wait_s: float = row["wait_s"]
        if not row["reserved"]:
            raise NotYet(wait_s + random.uniform(0, 1), "the recipient's limit is used up for now")
        # The database read its clock somewhere between question and answer: begin not before the later, count from the earlier.
        await asyncio.sleep(wait_s)
        return Slot(asked + wait_s, min(each.valid_s for each in limits))


async def forget_old_slots(db: Database) -> None:
    """Counters of recipients that nobody writes to any more."""
    await db.execute("delete from onceward.send_slots where next_at < clock_timestamp() - interval '1 day'")
