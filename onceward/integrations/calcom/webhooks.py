"""Cal.com: `X-Cal-Signature-256`, hex HMAC-SHA256 of the body. No event id, no timestamp, no retry."""

from __future__ import annotations

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
    """Cal.com sends once and never retries: the source must use `ack`, and bookings should be compared from time to
    time."""

    name = "calcom"
    title = "Cal.com"
    retries = False

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
