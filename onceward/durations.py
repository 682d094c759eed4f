"""Durations in the public API: a number of seconds or a timedelta. Fields that hold a plain number end in `_s`."""

from __future__ import annotations

from datetime import timedelta

Duration = float | timedelta
"""A number of seconds, or a timedelta."""


def in_seconds(duration: Duration) -> float:
    """Return a duration as a number of seconds."""
    return duration.total_seconds() if isinstance(duration, timedelta) else float(duration)
