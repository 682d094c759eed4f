"""Quiet hours and send windows in the recipient's time zone. Both can only delay a message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

DAYS_AHEAD = 16
"""More than two weeks: a weekly window may fall into the hour that is skipped when the clock moves forward."""
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


@dataclass(frozen=True, slots=True)
class Quiet:
    """Quiet hours from one local time to another. They include midnight if the end is before the start."""

    start: time
    end: time

    def covers(self, local: time) -> bool:
        if self.start == self.end:
            return False
        if self.start < self.end:
            return self.start <= local < self.end
        return local >= self.start or local < self.end

    @classmethod
    def parse(cls, text: str) -> Quiet:
        """Parse `21:00-08:00`."""
        try:
            start, end = (time.fromisoformat(part.strip()) for part in text.split("-"))
        except ValueError:
            raise ValueError(f"quiet hours must look like 21:00-08:00, not {text!r}") from None
        return cls(start, end)


@dataclass(frozen=True, slots=True)
class Window:
    """The local times of day and the days of the week at which a message may be sent."""

    start: time
    end: time
    days: frozenset[int] = frozenset(range(7))

    def __post_init__(self) -> None:
        if not self.start < self.end or not self.days:
            raise ValueError(f"a window needs a start before its end and at least one day, not {self}")

    def allows(self, local: datetime) -> bool:
        return local.weekday() in self.days and self.start <= local.time() < self.end

    @classmethod
    def parse(cls, options: Mapping[str, Any]) -> Window:
        """Parse `{from = "09:00", to = "20:00", days = ["mon", "tue"]}`."""
        try:
            start, end = (
                each if isinstance(each, time) else time.fromisoformat(each)
                for each in (options["from"], options["to"])
            )
            days = frozenset(DAYS.index(day) for day in options.get("days", DAYS))
        except (KeyError, ValueError) as error:
            raise ValueError(f"needs `from` and `to` as HH:MM, and `days` from {', '.join(DAYS)}: {error}") from None
        return cls(start, end, days)


def zone_or_default(name: str | None, default: str) -> ZoneInfo:
    """Return the named zone, or the default zone if the name is missing or unknown."""
    if name:
        try:
            return ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError):
            pass
    return ZoneInfo(default)


def next_allowed(now: datetime, zone: ZoneInfo, *, quiet: Quiet | None, window: Window | None) -> datetime | None:
    """Return when the message may be sent; None means now. Quiet hours are stronger than the window.

    If quiet hours cover the whole window, the window is ignored.
    """

    def allowed(moment: datetime) -> bool:
        local = moment.astimezone(zone)
        if quiet is not None and quiet.covers(local.time()):
            return False
        return window is None or window.allows(local)

    if allowed(now):
        return None
    boundaries = {each for each in (quiet.end if quiet else None, window.start if window else None) if each is not None}
    today = now.astimezone(zone).date()
    for day in range(DAYS_AHEAD):
        for moment in _moments(today + timedelta(days=day), boundaries, zone):
            if moment > now and allowed(moment):
                return moment
    if quiet is not None and window is not None:
        return next_allowed(now, zone, quiet=quiet, window=None)
    raise ValueError(f"quiet hours {quiet} and window {window} allow no time at all in zone {zone}")


def _moments(day: date, local_times: Iterable[time], zone: ZoneInfo) -> list[datetime]:
    """Return the moments at which the local clock shows these times on a day, earliest first.

    When the clock moves back, a time may occur twice. When it moves forward, a skipped time becomes one after the gap.
    """
    return sorted(
        {
            datetime.combine(day, each.replace(fold=fold), tzinfo=zone).astimezone(UTC)
            for each in local_times
            for fold in (0, 1)
        }
    )
