"""Stripe: `Stripe-Signature: t=..,v1=..`, HMAC-SHA256 of `t.body` with the whole `whsec_` string as key."""

from __future__ import annotations

from typing import Any

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.payload import (
    as_object,
    as_text,
)
from onceward.webhooks.provider import Provider, Request


def _subject(request: Request, event: Any) -> str:
    """Return the id that all events of one payment, or of one other object, share."""
    about = as_object(data.get("object")) if (data := as_object(event.get("data"))) else data
    for name in ("payment_intent", "subscription", "id"):
        if (value := about.get(name)) and isinstance(value, str):
            return value
    return as_text(as_object(event.get("related_object")).get("id"))


class StripeWebhooks(Provider):
    """Stripe retries for three days, without order and with duplicates. The event id is the body's `id`."""

    name = "stripe"
    title = "Stripe"

    verification = Hmac(
        header="stripe-signature", signed="{timestamp}.{body}", separator=",", prefix="v1=", timestamp_entry="t="
    )
    # Thin events (`v2.core.event`) contain a reference instead of `data.object`.
    events = Events(ordering=_subject, data="data.object", strict=True)
