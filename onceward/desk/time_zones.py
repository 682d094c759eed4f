"""The names of time zones. Python searches all files of the zones at each call of `available_timezones`: tens of
milliseconds."""

from __future__ import annotations

from functools import cache
from zoneinfo import available_timezones


@cache
def time_zones() -> frozenset[str]:
    """Return the names of all time zones that this machine knows."""
    return frozenset(available_timezones())
