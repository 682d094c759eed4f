"""Brevo: what became of mails. Brevo signs nothing: it sends a token of ours as `Authorization: Bearer ..`.

The token proves who sends, not what was sent: who reads a request on its way could send others. Use https only.
"""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events
from onceward.webhooks.families import Token
from onceward.webhooks.provider import Provider, SourceConfig


class BrevoWebhooks(Provider):
    """Brevo repeats a failed request after 10 minutes, 1, 2 and 8 hours.

    Its `id` is that of the webhook, not of the event.
    """

    name = "brevo"
    title = "Brevo"

    verification = Token(header="authorization", prefix="Bearer ")
    events = Events(
        id=Derive("message-id", "event", "email", "ts_event", "ts_epoch", "link"),
        type="event",
        ordering="message-id",
        items=".",
        body="json",
        strict_type=True,
    )

    def forge(self, config: SourceConfig, headers: dict[str, str], body: bytes) -> tuple[dict[str, str], bytes]:
        return {**headers, "authorization": f"{headers['authorization']}-wrong"}, body
