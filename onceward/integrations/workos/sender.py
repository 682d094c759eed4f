"""WorkOS: `WorkOS-Signature: t=.., v1=..`, HMAC-SHA256 of `timestamp.body`, in milliseconds."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="WorkOS",
    verification=Hmac(
        header="workos-signature",
        signed="{timestamp}.{body}",
        separator=", ",
        prefix="v1=",
        timestamp_entry="t=",
        timestamp_unit="ms",
    ),
    tolerance_s=180,
    events=Events(type="event", ordering="data.id", data="data", strict=True),
    setup=(
        "In the dashboard, under Webhooks, create one with the URL of the source. Its secret is the secret of the "
        "source."
    ),
    failure="WorkOS retries for up to three days.",
    facts=("workos/workos-node src/common/crypto/signature-provider.ts",),
    unconfirmed=("retries",),
)
