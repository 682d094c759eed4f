"""Quiet hours and send windows, in the recipient's own time zone. Pure; both only ever move a message to later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

DAYS_AHEAD = 16
"""Two weeks: a window of one day a week may fall into the hour that the clock jumps over."""
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


@dataclass(frozen=True, slots=True)
class Quiet:
    """From one local time to another, over midnight if the end is the earlier of the two."""

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
        """`21:00-08:00`"""
        try:
            start, end = (time.fromisoformat(part.strip()) for part in text.split("-"))
        except ValueError:
            raise ValueError(f"quiet hours must look like 21:00-08:00, not {text!r}") from None
        return cls(start, end)


@dataclass(frozen=True, slots=True)
class Window:
    """Only between two local times of a day, and only on some days of the week."""

    start: time
    end: time
    days: frozenset[int] = frozenset(range(7))

    def __post_init__(self) -> None:
        if not self.start < self.end or not self.days:
            raise ValueError(f"a window goes from an earlier to a later time on at least one day, not {self}")

    def allows(self, local: datetime) -> bool:
        return local.weekday() in self.days and self.start <= local.time() < self.end

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Window:
        """`{from = "09:00", to = "20:00", days = ["mon", "tue"]}`"""
        try:
            start, end = (
                each if isinstance(each, time) else time.fromisoformat(each) for each in (given["from"], given["to"])
            )
            days = frozenset(DAYS.index(day) for day in given.get("days", DAYS))
        except (KeyError, ValueError) as error:
            raise ValueError(f"needs `from` and `to` as HH:MM, and `days` out of {', '.join(DAYS)}: {error}") from None
        return cls(start, end, days)


def zone_or_default(name: str | None, default: str) -> ZoneInfo:
    """A missing or unknown zone is the default zone: never a reason to ignore the hours."""
    if name:
        try:
            return ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError):
            pass
    return ZoneInfo(default)


def next_allowed(now: datetime, zone: ZoneInfo, *, quiet: Quiet | None, window: Window | None) -> datetime | None:
    """When it may be sent; None: now. The window counts as the wish, quiet hours as the veto.

    Where quiet hours leave no time at all within the window, the window is disregarded.
    """

    def allowed(moment: datetime) -> bool:
        local = moment.astimezone(zone)
        if quiet is not None and quiet.covers(local.time()):
            return False
        return window is None or window.allows(local)

    if allowed(now):
        return None
    turns = {each for each in (quiet.end if quiet else None, window.start if window else None) if each is not None}
    today = now.astimezone(zone).date()
    for day in range(DAYS_AHEAD):
        for moment in _moments(today + timedelta(days=day), turns, zone):
            if moment > now and allowed(moment):
                return moment
    if quiet is not None and window is not None:
        return next_allowed(now, zone, quiet=quiet, window=None)
    raise ValueError(f"quiet hours {quiet} and window {window} leave no time at all in zone {zone}")


def _moments(day: date, turns: Iterable[time], zone: ZoneInfo) -> list[datetime]:
    """When the clock shows these times on a day, earliest first.

    In autumn it shows some of them twice. A time that is jumped over in spring falls after the jump, as conversion puts it.
    """
    return sorted(
        {
            datetime.combine(day, turn.replace(fold=fold), tzinfo=zone).astimezone(UTC)
            for turn in turns
            for fold in (0, 1)
        }
    )
