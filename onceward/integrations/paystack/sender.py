"""Paystack: `x-paystack-signature`, hexadecimal HMAC-SHA512 of the body with the API secret key."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Paystack",
    verification=Hmac(header="x-paystack-signature", algorithm="sha512"),
    events=Events(
        id=Derive("event", "data.id", "data.reference", "data.status"),
        type="event",
        ordering="data.reference",
        data="data",
        strict_type=True,
    ),
    setup=(
        "Under Settings, API Keys & Webhooks, enter the URL of the source. The secret key (`sk_live_...`) is the "
        "secret of the source."
    ),
    failure="Paystack retries for 72 hours. It sends from 52.31.139.75, 52.49.173.169 and 52.214.14.220.",
    facts=("several public projects (third party)",),
    unconfirmed=(
        "the signature",
        "retries",
        "the addresses",
    ),
)
