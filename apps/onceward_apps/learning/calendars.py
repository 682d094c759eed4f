"""The sessions of a cohort as a calendar, to import or to subscribe to.

The uid of a session never changes and its sequence grows with each change, so a calendar shows the newest times. Times
are in UTC: a calendar shows them in the zone of its owner.
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
    file.add("method", "PUBLISH")
    file.add("x-wr-calname", enrollment["cohort_name"])
    file.add("refresh-interval;value=duration", "PT1H")
    file.add("x-published-ttl", "PT1H")
    has_ended = enrollment["status"] in ("REFUND_PENDING", "REFUNDED")
    for session in sessions:
        event = Event()
        event.add("uid", f"session-{session['id']}@onceward")
        event.add("summary", f"{enrollment['cohort_name']}: {session['title']}")
        event.add("dtstart", session["starts_at"].astimezone(UTC))
        event.add("dtend", session["ends_at"].astimezone(UTC))
        event.add("dtstamp", enrollment["updated_at"].astimezone(UTC))
        event.add("sequence", session["revision"] + (1 if has_ended else 0))
        link = session["booking_url"] or enrollment["zoom_link"]
        if link and enrollment["has_access"]:
            event.add("url", link)
        if session["cancelled"] or has_ended:
            event.add("status", "CANCELLED")
        file.add_component(event)
    return file.to_ical()
