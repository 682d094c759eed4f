"""Exact limits across all workers: a send reserves a time slot in the database and waits for it.

One statement returns the slot and advances the next one, so a limit of N per period never lets N + 1 sends through. A
slot is valid for 100 ms; a send that comes later (a slow machine, a long pause) reserves a new one. The period includes
that tolerance before it is divided by N, so that the limit also holds when the service measures it.
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
"""By how much the network may delay one send more than another."""
EXACT = 0.25
"""Which part of its validity the time of a slot may be uncertain by, before the clock of the database is read again."""
MOST_MISSED = 20
PATIENCE_S = 5.0
"""How long a send waits for a limit of its recipient before it releases its worker slot."""
BULK_PATIENCE_S = 1.0
"""How long the line of bulk sends before an urgent one may be."""

CLOCK = "select extract(epoch from clock_timestamp())::float8"
RESERVE = (
    "select wait_s, reserved, extract(epoch from clock_timestamp())::float8 as clock"
    " from onceward.reserve_send($1, $2, $3)"
)

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
        """How late a send may start: 100 ms, and more for long intervals, where a missed slot costs a long wait.

        A single send in a short interval gets less, because the interval grows by the tolerance: an interval of 500 ms
        still allows 100 sends in a minute.
        """
        shortest = VALID_S if self.count > 1 else min(VALID_S, self.per_s * 0.08)
        return min(LONGEST_VALID_S, max(shortest, self.per_s / self.count * 0.05))

    @property
    def every_s(self) -> float:
        return (self.per_s + self.valid_s + JITTER_S) / self.count

    def patience_s(self, *, bulk: bool) -> float:
        """Return how long a send may wait for its slot before it releases its worker slot."""
        if self.scope == "recipient":
            return PATIENCE_S
        return max(BULK_PATIENCE_S, 2 * self.every_s) if bulk else 86400.0

    def key(self, channel: str, sender: str, recipient: str) -> str:
        period = f"{self.count}/{self.per_s:g}s"
        match self.scope:
            case "channel":
                return f"{channel} {period}"
            case "sender":
                return f"{channel} from {sender} {period}"
            case "recipient":
                # Hashed: a table of counters must not contain addresses.
                return f"{channel} to {hashlib.sha256(recipient.encode()).hexdigest()[:32]} {period}"


@dataclass(frozen=True, slots=True)
class SendSlot:
    """When a send may begin, on the monotonic clock of this process."""

    at: float
    valid_s: float = VALID_S

    @property
    def late(self) -> bool:
        return time.monotonic() - self.at > self.valid_s


def per_second(rate: float) -> Limit | None:
    """Return a limit per second; None for 0, which means no limit."""
    if not rate:
        return None
    return Limit(count=1, per_s=1 / rate) if rate < 1 else Limit(count=round(rate), per_s=1.0)


class Limits:
    """The limits of each channel. A channel without limits needs no statement in the database."""

    def __init__(self, db: Database, limits: Mapping[str, Sequence[Limit]]) -> None:
        self._db = db
        self._limits = limits

    async def wait(self, channel: str, sender: str, recipient: str, *, bulk: bool = False) -> SendSlot | None:
        """Wait until the send may begin and return its slot. Raise NotYet if the recipient's limit requires a long
        wait.

        A `bulk` send does not join a long line: what is urgent would wait behind it.
        """
        limits = self._limits.get(channel)
        if not limits:
            return None
        async with self._db.acquire() as conn:
            requested_at = time.monotonic()
            row = await conn.fetchrow(
                RESERVE,
                [each.key(channel, sender, recipient) for each in limits],
                [each.every_s for each in limits],
                [each.patience_s(bulk=bulk) for each in limits],
            )
            answered_at = time.monotonic()
        assert row is not None
        wait_s: float = row["wait_s"]
        if not row["reserved"]:
            why = "urgent messages go first" if bulk else "the recipient's limit is used up for now"
            raise NotYet(wait_s + random.uniform(0, 1), why)
        valid_s = min(each.valid_s for each in limits)
        # The database read its clock between request and answer: start after the answer, measure lateness from the
        # request.
        earliest, latest = requested_at + wait_s, answered_at + wait_s
        if latest - earliest > valid_s * EXACT and wait_s > 0:
            # The reservation waited behind others. Without another look at the clock its slot would count as late by
            # that time.
            earliest, latest = await self._read_again(row["clock"] + wait_s, earliest, latest)
        await asyncio.sleep(latest - time.monotonic())
        return SendSlot(earliest, valid_s)

    async def _read_again(self, at: float, earliest: float, latest: float) -> tuple[float, float]:
        """Return when the database's clock shows `at`: not before the first, not after the second time of our clock."""
        async with self._db.acquire() as conn:
            asked_at = time.monotonic()
            left_s = at - await conn.fetchval(CLOCK)
            return max(earliest, asked_at + left_s), min(latest, time.monotonic() + left_s)


async def forget_old_slots(db: Database) -> None:
    """Delete the counters that no send has used for a day."""
    await db.execute("delete from onceward.send_slots where next_at < clock_timestamp() - interval '1 day'")
