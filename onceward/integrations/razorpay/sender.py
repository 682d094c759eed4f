"""Razorpay: `X-Razorpay-Signature`, hexadecimal HMAC-SHA256 of the body."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events, Header
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Razorpay",
    verification=Hmac(header="x-razorpay-signature"),
    events=Events(
        id=(Header("X-Razorpay-Event-Id"), Derive("event", "payload", "created_at")),
        type="event",
        ordering=("payload.payment.entity.id", "payload.order.entity.id"),
        data="payload",
        strict_type=True,
    ),
    setup=(
        "In the dashboard, under Account & Settings, Webhooks, add the URL of the source and a secret: it is the "
        "secret of the source."
    ),
    failure="Razorpay retries for 24 hours and does not keep the order.",
    facts=("razorpay/razorpay-python razorpay/utility (digest, vector)",),
    unconfirmed=(
        "names of the headers",
        "retries",
    ),
)
