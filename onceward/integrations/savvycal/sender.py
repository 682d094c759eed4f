"""SavvyCal: `x-savvycal-signature: sha256=..`, HMAC-SHA256 of the body in upper-case hexadecimal."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="SavvyCal",
    verification=Hmac(header="x-savvycal-signature", prefix="sha256="),
    events=Events(ordering="payload.id", data="payload", strict=True),
    setup=(
        "In the settings, under Developer, Webhooks, add the URL of the source. Its secret is the secret of the source."
    ),
    failure="SavvyCal wants 200 and retries with increasing delays.",
    facts=("developers.savvycal.com/webhooks",),
)
