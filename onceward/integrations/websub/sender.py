"""WebSub hubs: `X-Hub-Signature: method=..`, an HMAC of the body whose digest the value names."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.handshakes import SubscriptionCheck
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="WebSub hubs",
    verification=Hmac(header="x-hub-signature", algorithm="named"),
    events=Events(id=("id",), type=("type",), default_type="content", body="json"),
    handshake=SubscriptionCheck(token=False),
    setup=(
        "Subscribe at the hub with the URL of the source as `hub.callback` and a `hub.secret`: it is the secret "
        "of the source."
    ),
    failure="A hub retries as it likes. Leases expire: subscribe again before.",
    notes="Bodies must be JSON. For a feed in XML write a provider of your own.",
    facts=("w3c/websub (signature, handshake)",),
)
