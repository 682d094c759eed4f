"""EasyPost: `X-Hmac-Signature: hmac-sha256-hex=..`, HMAC-SHA256 of the body."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="EasyPost",
    verification=Hmac(header="x-hmac-signature", prefix="hmac-sha256-hex="),
    events=Events(type="description", ordering="result.id", data="result", strict=True),
    setup=(
        "Create a webhook with the URL of the source and a `webhook_secret` of letters and digits: it is the "
        "secret of the source."
    ),
    failure="EasyPost wants a 2xx within 7 s and retries up to six times.",
    facts=("EasyPost/easypost-python easypost/util.py (signature)",),
    unconfirmed=(
        "the field `id`",
        "retries",
    ),
)
