"""WooCommerce: `X-WC-Webhook-Signature`, base64 HMAC-SHA256 of the body."""

from __future__ import annotations

from onceward.webhooks.events import Events, Header
from onceward.webhooks.families import Hmac
from onceward.webhooks.handshakes import Handshake
from onceward.webhooks.provider import ProviderReply, Request, SourceConfig
from onceward.webhooks.sender import Sender


class UnsignedPing(Handshake):
    """The form `webhook_id=N` that WooCommerce posts, unsigned, when a webhook is saved. It must be answered with
    200."""

    unsigned = True
    note = "The unsigned form `webhook_id=N`, posted when a webhook is saved, is answered with 200 and is not an event."

    def answer(self, config: SourceConfig, request: Request) -> ProviderReply | None:
        number = request.body.removeprefix(b"webhook_id=")
        is_ping = number != request.body and number.isdigit() and len(number) < 20
        return ProviderReply() if request.method == "POST" and is_ping else None


UNSIGNED_PING = UnsignedPing()


SENDER = Sender(
    title="WooCommerce",
    verification=Hmac(header="x-wc-webhook-signature", encoding="base64"),
    events=Events(
        id=Header("X-WC-Webhook-Delivery-ID"),
        type=Header("X-WC-Webhook-Topic"),
        ordering="id",
        body="any",
        strict_type=True,
    ),
    handshake=UNSIGNED_PING,
    retries=False,
    setup=(
        "Under WooCommerce, Settings, Advanced, Webhooks, add the URL of the source as delivery URL and a secret: "
        "it is the secret of the source."
    ),
    failure="WooCommerce sends once. After more than five failures in a row it disables the webhook.",
    facts=("woocommerce/woocommerce class-wc-webhook.php",),
)
