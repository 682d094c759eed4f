"""Flutterwave: `verif-hash`, the secret itself."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events
from onceward.webhooks.families import Token
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Flutterwave",
    verification=Token(header="verif-hash"),
    events=Events(
        id=Derive("event", "data.id", "data.status", "data.tx_ref"),
        type="event",
        ordering="data.tx_ref",
        data="data",
        strict_type=True,
    ),
    setup=("Under Settings, Webhooks, enter the URL of the source and a secret hash: it is the secret of the source."),
    failure="Flutterwave retries three times, 30 minutes apart, if you turn it on.",
    facts=("several public projects (third party)",),
    unconfirmed=(
        "the header",
        "retries",
    ),
)
