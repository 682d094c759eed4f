"""Brevo's events about a mail: what became of it, and whether its recipient may be written to again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onceward.messages.reports import Consequence, DeliveryReports, ServiceReport, text_of
from onceward.webhooks.payload import as_object

STATUSES: Mapping[str, str] = {
    "request": "queued",
    "deferred": "queued",
    "delivered": "delivered",
    "opened": "opened",
    "unique_opened": "opened",
    "click": "opened",
    "soft_bounce": "bounced",
    "hard_bounce": "bounced",
    "invalid_email": "bounced",
    "blocked": "bounced",
    "error": "failed",
    "spam": "delivered",
    "unsubscribed": "delivered",
}
"""What each event says about the mail. A mail that was reported as spam has arrived."""
CONSEQUENCES: Mapping[str, Consequence] = {
    "hard_bounce": "bounce",
    "invalid_email": "bounce",
    "spam": "complaint",
    "unsubscribed": "opt_out",
}
"""What each event says about later mails. `blocked` says nothing new:

Brevo's own list refuses the address until it is removed there.
"""
FAILURES = ("bounced", "failed")


def read(type: str, payload: Any) -> ServiceReport:
    fields = as_object(payload)
    to = text_of(fields.get("email"))
    return ServiceReport(
        channel="email",
        status=STATUSES[type],
        reference=text_of(fields.get("message-id")),
        key=text_of(fields.get("X-Mailin-custom")),
        to=None if to is None else to.lower(),
        # The reason that Brevo gives contains the address.
        error=f"Brevo: {type}" if STATUSES[type] in FAILURES else None,
        consequence=CONSEQUENCES.get(type),
    )


REPORTS = DeliveryReports(types=tuple(STATUSES), read=read)
