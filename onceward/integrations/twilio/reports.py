"""Twilio's status callbacks: what became of a text message."""

from __future__ import annotations

from typing import Any

from onceward.messages.reports import DeliveryReports, ServiceReport, text_of
from onceward.webhooks.payload import as_object

STATUSES = (
    "accepted",
    "scheduled",
    "queued",
    "sending",
    "sent",
    "delivered",
    "undelivered",
    "failed",
    "read",
    "canceled",
)


def read(type: str, payload: Any) -> ServiceReport:
    fields = as_object(payload)
    code = text_of(fields.get("ErrorCode"))
    return ServiceReport(
        channel="sms",
        status=type.partition(".")[2],
        reference=text_of(fields.get("MessageSid")) or text_of(fields.get("SmsSid")),
        to=text_of(fields.get("To")),
        error=f"Twilio error {code}"[:100] if code else None,
    )


REPORTS = DeliveryReports(types=tuple(f"message.{status}" for status in STATUSES), read=read)
