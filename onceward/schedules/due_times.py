"""Due times of cron expressions in a time zone and of intervals. Pure functions: the time is an argument.

Daylight saving time works as in Debian's cron. A fixed local time that is skipped when the clock moves forward is due
right after the gap. One that occurs twice when the clock moves back is due the first time only. Expressions with a
wildcard in minute or hour follow elapsed time in both cases.
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
    """A cron expression with five fields as in crontab(5); `tz` is an IANA name."""

    expression: str
    tz: str = "UTC"
    _zone: ZoneInfo = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            zone = ZoneInfo(self.tz)
        except (ZoneInfoNotFoundError, ValueError):
            raise ValueError(f"tz={self.tz!r} is not a time zone; use a name such as Europe/Berlin or UTC") from None
        object.__setattr__(self, "_zone", zone)
        try:
            CronSim(self.expression, EPOCH)
        except CronSimError as error:
            raise ValueError(f"cron expression {self.expression!r}: {error}") from None

    def after(self, moment: datetime) -> Iterator[datetime]:
        """Yield the due times after a moment, in UTC. They end only if none is left, as for 30 February."""
        # CronSim would carry microseconds over into its results.
        start = moment.astimezone(self._zone).replace(microsecond=0)
        for due in CronSim(self.expression, start):
            utc = due.astimezone(UTC)
            if utc > moment:
                yield utc


@dataclass(frozen=True, slots=True)
class Every:
    """A fixed interval counted from 1970-01-01 UTC, so that every node gets the same due times."""

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
    """Return the first due time after a moment."""
    return next(iter(timing.after(moment)), None)


def between(timing: Timing, after: datetime, until: datetime, *, most: int | None = None) -> Iterator[datetime]:
    """Yield the due times in (after, until], oldest first."""
    for number, due in enumerate(timing.after(after)):
        if due > until or (most is not None and number >= most):
            return
        yield due


def jitter_s(schedule: str, due: datetime, most_s: float) -> float:
    """Return a pseudo-random delay that is the same on every node and at every attempt."""
    if most_s <= 0:
        return 0.0
    digest = hashlib.sha256(f"{schedule}\0{due.isoformat()}".encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64 * most_s
