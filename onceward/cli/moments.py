"""Times on the command line: `12h` (twelve hours ago) or an ISO time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from onceward.cli.exits import CommandFailed

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def moment(text: str | None) -> datetime | None:
    """Return the time that `12h` (twelve hours ago) or an ISO time names."""
    if text is None:
        return None
    if text[-1:] in UNITS and text[:-1].isdigit():
        return datetime.now(UTC) - timedelta(**{UNITS[text[-1]]: int(text[:-1])})
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise CommandFailed(
            f"time {text!r} is not valid: use 30m, 12h, 7d or an ISO time like 2026-01-31T12:00"
        ) from None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
