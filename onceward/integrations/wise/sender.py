"""Wise: `X-Signature-SHA256`, RSA over the body."""

from __future__ import annotations

from onceward.webhooks.events import Events, Header
from onceward.webhooks.families import PublicKey
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Wise",
    verification=PublicKey(algorithm="rsa-sha256", header="x-signature-sha256", encoding="base64"),
    events=Events(
        id=(Header("X-Delivery-Id"),), type="event_type", ordering="data.resource.id", data="data", strict_type=True
    ),
    setup=(
        "In the settings, under Developer tools, Webhooks, create one with the URL of the source. The public key "
        "that Wise publishes for the environment (PEM) is the secret of the source."
    ),
    failure="Wise retries for two weeks.",
    facts=("jayaddison/pywisetransfer webhooks.py (third party)",),
    unconfirmed=(
        "the signature",
        "the header `X-Delivery-Id`",
        "retries",
    ),
)
