"""The sessions of a cohort as a calendar file.

The uid of a session never changes, so a second import replaces the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import Any


def calendar(enrollment: Any, sessions: Sequence[Any]) -> bytes:
    from icalendar import Calendar, Event

    file = Calendar()
    file.add("prodid", "-//Onceward//Learning//EN")
    file.add("version", "2.0")
    for session in sessions:
        event = Event()
        event.add("uid", f"session-{session['id']}@onceward")
        event.add("summary", f"{enrollment['cohort_name']}: {session['title']}")
        event.add("dtstart", session["starts_at"].astimezone(UTC))
        event.add("dtend", session["ends_at"].astimezone(UTC))
        event.add("dtstamp", enrollment["updated_at"].astimezone(UTC))
        link = session["booking_url"] or enrollment["zoom_link"]
        if link and enrollment["has_access"]:
            event.add("url", link)
        if session["cancelled"]:
            event.add("status", "CANCELLED")
        file.add_component(event)
    return file.to_ical()
