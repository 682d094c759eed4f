"""Cal.com: `X-Cal-Signature-256`, hex HMAC-SHA256 of the body. No event id, no timestamp, no retry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.payload import (
    as_object,
    as_text,
    derived_key,
    read_object,
)
from onceward.webhooks.provider import Provider, ProviderReply, Rejected, Request, SourceConfig
from onceward.webhooks.samples import apply_fields, iso_now, token

_HEADER: Final = "x-cal-signature-256"
_NO_SECRET: Final = "no-secret-provided"
_BY_SCHEDULE: Final = ("MEETING_STARTED", "MEETING_ENDED")


def _booking_of(envelope: dict[str, Any]) -> dict[str, Any]:
    # Scheduled starts and ends of meetings are flat: the body is the booking, without `payload`.
    return as_object(envelope.get("payload", envelope))


def _booking_id(booking: dict[str, Any], *names: str) -> str:
    return next((text for name in names if (text := as_text(booking.get(name)))), "")


def _event_id(request: Request, value: Any) -> str:
    """Return the event id. It includes the change, because a booking may be moved twice."""
    envelope = as_object(value)
    booking, trigger = _booking_of(envelope), as_text(envelope.get("triggerEvent"))
    identity = _booking_id(booking, "uid", "bookingUid", "bookingId")
    if not identity:
        return ""
    if trigger in _BY_SCHEDULE:
        # `createdAt` is the booking's in the flat form and the request's in the nested form, so neither is used.
        return derived_key((trigger, identity, booking.get("endTime")))
    return derived_key((trigger, identity, envelope.get("createdAt"), booking.get("startTime")))


def _subject(request: Request, value: Any) -> str:
    return _booking_id(_booking_of(as_object(value)), "rescheduleUid", "uid", "bookingUid", "bookingId")


class CalCom(Provider):
    """Cal.com sends once and never retries: the source must use `ack`, and bookings should be compared from time to time."""

    name = "calcom"
    title = "Cal.com"
    retries = False
    sample_types = (
        "BOOKING_CREATED",
        "BOOKING_REQUESTED",
        "BOOKING_CONFIRMED",
        "BOOKING_RESCHEDULED",
        "BOOKING_CANCELLED",
        "BOOKING_REJECTED",
        "BOOKING_PAID",
        "BOOKING_NO_SHOW_UPDATED",
        "MEETING_STARTED",
        "MEETING_ENDED",
    )

    # Cal.com's code sends plain hexadecimal, its documentation shows a prefix. Both are accepted.
    verification = Hmac(header=_HEADER, prefix="sha256=", prefix_required=False)
    events = Events(id=_event_id, type="triggerEvent", ordering=_subject, data="payload", strict_type=True)

    def verify(self, config: SourceConfig, request: Request, now: float) -> None:
        if request.headers.get(_HEADER) == _NO_SECRET:
            raise Rejected("unsigned", "Cal.com has no secret for this webhook: set it there")
        super().verify(config, request, now)

    def challenge(self, config: SourceConfig, request: Request) -> ProviderReply | None:
        # This search is cheap and avoids parsing ordinary requests twice.
        if request.method != "POST" or b'"PING"' not in request.body:
            return None
        return ProviderReply() if read_object(request.body).value.get("triggerEvent") == "PING" else None

    def sign(self, config: SourceConfig, body: bytes, now: float, **extra: str) -> dict[str, str]:
        return {"x-cal-webhook-version": "2021-10-20", **super().sign(config, body, now, **extra)}

    def sample(self, type: str, fields: Mapping[str, Any] | None = None) -> Any:
        if type in _BY_SCHEDULE:
            return apply_fields({"triggerEvent": type, **_booking_row()}, fields)
        payload = {"triggerEvent": type, "createdAt": iso_now(), "payload": _booking(type)}
        return apply_fields(payload, fields)


def _person(name: str, email: str) -> dict[str, Any]:
    return {
        "name": name,
        "email": email,
        "timeZone": "Europe/Berlin",
        "language": {"locale": "en"},
        "utcOffset": 60,
    }


def _booking(type: str) -> dict[str, Any]:
    if type == "BOOKING_NO_SHOW_UPDATED":
        return {
            "message": "Attendee marked as no-show",
            "bookingUid": token("", 22),
            "bookingId": 4711,
            "attendees": [{"email": "ada@example.com", "noShow": True}],
        }
    status = {
        "BOOKING_CANCELLED": "CANCELLED",
        "BOOKING_REJECTED": "REJECTED",
        "BOOKING_REQUESTED": "PENDING",
    }
    booking: dict[str, Any] = {
        "type": "mentoring",
        "title": "Mentoring between Grace Host and Ada Example",
        "description": "",
        "additionalNotes": "",
        "startTime": iso_now(minutes=1440),
        "endTime": iso_now(minutes=1470),
        "organizer": {"id": 7, **_person("Grace Host", "grace@example.com")},
        "attendees": [_person("Ada Example", "ada@example.com")],
        "uid": token("", 22),
        "bookingId": 4711,
        "eventTypeId": 12,
        "location": "integrations:daily",
        "status": status.get(type, "ACCEPTED"),
        "responses": {
            "name": {"label": "your_name", "value": "Ada Example"},
            "email": {"label": "email_address", "value": "ada@example.com"},
        },
        "metadata": {},
        "length": 30,
    }
    if type == "BOOKING_RESCHEDULED":
        booking |= {
            "rescheduleUid": token("", 22),
            "rescheduleId": 4710,
            "rescheduleStartTime": iso_now(minutes=720),
            "rescheduleEndTime": iso_now(minutes=750),
        }
    elif type == "BOOKING_CANCELLED":
        booking |= {"cancellationReason": "Cannot make it", "cancelledBy": "ada@example.com"}
    elif type == "BOOKING_PAID":
        booking |= {"paymentId": 88, "price": 4200, "currency": "eur"}
    return booking


def _booking_row() -> dict[str, Any]:
    return {
        "id": 4711,
        "uid": token("", 22),
        "userId": 7,
        "eventTypeId": 12,
        "title": "Mentoring between Grace Host and Ada Example",
        "description": "",
        "responses": {"email": {"label": "email_address", "value": "ada@example.com"}},
        "startTime": iso_now(minutes=-30),
        "endTime": iso_now(),
        "location": "integrations:daily",
        "createdAt": iso_now(minutes=-2880),
        "updatedAt": None,
        "status": "ACCEPTED",
        "paid": False,
        "metadata": {},
        "attendees": [{"name": "Ada Example", "email": "ada@example.com"}],
    }
