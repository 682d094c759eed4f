"""Rate limits: an allowance that refills evenly, shared by all nodes.

    wait_s = await Rate(60, per_s=60).take(conn, f"holds:{event}:{client}", cost=3)

The table stores the time at which the allowance is full again, so `take` is one statement. A refused `take` writes
nothing: a client that retries too often costs only reads.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

from onceward.db import Connection
from onceward.statements import read_statement

TAKE = read_statement("limits", "take_token")
WAIT = "select extract(epoch from full_at - clock_timestamp())::float8 + $2 - $3 from onceward.rates where key = $1"
FORGET = (
    "with gone as (delete from onceward.rates where full_at < clock_timestamp() returning 1) select count(*) from gone"
)


@dataclass(frozen=True, slots=True)
class Rate:
    """An allowance of `at_most`. When it is used up, it refills evenly within `per_s` seconds."""

    at_most: int
    per_s: float = 60.0

    def __post_init__(self) -> None:
        if self.at_most < 1 or self.per_s <= 0:
            raise ValueError(f"a rate of {self.at_most} per {self.per_s} s is not valid: give positive numbers")

    async def take(self, conn: Connection, key: str, *, cost: int = 1) -> int:
        """Take `cost` and return 0, or take nothing and return the seconds to wait.

        A cost above `at_most` counts as `at_most`.
        """
        digest = hashlib.sha256(key.encode()).digest()
        spent_s = min(cost, self.at_most) * self.per_s / self.at_most
        if await conn.fetchval(TAKE, digest, spent_s, self.per_s):
            return 0
        wait_s: float | None = await conn.fetchval(WAIT, digest, spent_s, self.per_s)
        return max(1, math.ceil(wait_s or 0))


async def forget_idle(conn: Connection) -> int:
    """Delete the keys whose allowance is full again, and return their number. An absent key has its full allowance."""
    return await conn.fetchval(FORGET)
