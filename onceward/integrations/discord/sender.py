"""Discord interactions: `X-Signature-Ed25519` over timestamp and body with the public key of the app."""

from __future__ import annotations

from typing import Any

from onceward.webhooks.events import Events
from onceward.webhooks.families import PublicKey
from onceward.webhooks.handshakes import TrialRequest
from onceward.webhooks.payload import as_object
from onceward.webhooks.provider import ProviderReply, Request
from onceward.webhooks.sender import Sender

KINDS = {2: "application_command", 3: "message_component", 4: "autocomplete", 5: "modal_submit"}


def _kind(request: Request, value: Any) -> str:
    """Return the name of the interaction's `type`."""
    return KINDS.get(as_object(value).get("type") or 0, "interaction")


SENDER = Sender(
    title="Discord interactions",
    verification=PublicKey(header="x-signature-ed25519", signed="{timestamp}{body}", timestamp="x-signature-timestamp"),
    events=Events(id="id", type=_kind, ordering="channel_id", data="data", strict=True),
    handshake=TrialRequest(when={"type": "1"}, content=b'"type"', text=b'{"type":1}', content_type="application/json"),
    accepted_reply=ProviderReply(b'{"type":5}', "application/json"),
    retries=False,
    setup=(
        "In the Developer Portal, under General Information, enter the URL of the source as interactions "
        "endpoint. The public key there is the secret of the source."
    ),
    failure=(
        "Discord waits 3 s for the answer and does not retry. It sends wrong signatures on purpose and wants 401 "
        "for them."
    ),
    notes=(
        "The answer is the reply to the person. In the mode `ack` she sees that the interaction failed: let the "
        "handler answer through the webhook of the interaction (`token`)."
    ),
    facts=("discord/discord-api-docs interactions/overview",),
    unconfirmed=("deadline",),
)
