"""When something is due: cron expressions in a time zone, and intervals. Pure; time comes in as an argument.

Time zones follow Debian's cron. A fixed local time that the clock jumps over in spring is due right after the jump;
one that comes twice in autumn is due the first time only. Expressions with a wildcard in minute or hour go by elapsed
time and run through both.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SHORTEST_INTERVAL_S = 1.0


@dataclass(frozen=True, slots=True)
class Cron:
    """Five fields, as crontab(5) has them; `tz` is an IANA name."""

    expression: str
    tz: str = "UTC"
    _zone: ZoneInfo = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            zone = ZoneInfo(self.tz)
        except (ZoneInfoNotFoundError, ValueError):
            raise ValueError(f"tz={self.tz!r} is no time zone; use a name such as Europe/Berlin or UTC") from None
        object.__setattr__(self, "_zone", zone)
        try:
            CronSim(self.expression, EPOCH)
        except CronSimError as error:
            raise ValueError(f"cron expression {self.expression!r}: {error}") from None

    def after(self, moment: datetime) -> Iterator[datetime]:
        """Due times later than a moment, in UTC, without end (or until none comes, as for 30 February)."""
        # Whole microseconds would be carried into the result; the next whole minute is looked for from the second.
        start = moment.astimezone(self._zone).replace(microsecond=0)
        for due in CronSim(self.expression, start):
            utc = due.astimezone(UTC)
            if utc > moment:
                yield utc


@dataclass(frozen=True, slots=True)
class Every:
    """A fixed interval, counted from the epoch: every node finds the same due times, whenever it started."""

    seconds: float

    def __post_init__(self) -> None:
        if not self.seconds >= SHORTEST_INTERVAL_S:
            raise ValueError(f"an interval must be at least {SHORTEST_INTERVAL_S:g} s, not {self.seconds!r}")

    def after(self, moment: datetime) -> Iterator[datetime]:
        number = math.floor((moment - EPOCH).total_seconds() / self.seconds)
        while True:
            number += 1
            due = EPOCH + timedelta(seconds=number * self.seconds)
            if due > moment:
                yield due


Timing = Cron | Every


def next_after(timing: Timing, moment: datetime) -> datetime | None:
    """The first due time later than a moment."""
    return next(iter(timing.after(moment)), None)


def between(timing: Timing, after: datetime, until: datetime, *, most: int | None = None) -> Iterator[datetime]:
    """Due times in (after, until], oldest first."""
    for number, due in enumerate(timing.after(after)):
        if due > until or (most is not None and number >= most):
            return
        yield due


def jitter_s(schedule: str, due: datetime, most_s: float) -> float:
    """A delay that looks random and is the same on every node and at every try."""
    if most_s <= 0:
        return 0.0
    digest = hashlib.sha256(f"{schedule}\0{due.isoformat()}".encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64 * most_s
