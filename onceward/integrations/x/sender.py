"""X (Twitter): `x-twitter-webhooks-signature: sha256=..`, base64 HMAC-SHA256 of the body with the consumer secret."""

from __future__ import annotations

from typing import Any

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.handshakes import SignedChallenge
from onceward.webhooks.payload import as_object
from onceward.webhooks.provider import Request
from onceward.webhooks.sender import Sender


def _top_level(request: Request, value: Any) -> str:
    """Return the name of the field that ends in `_events`."""
    names = as_object(value)
    return next((name for name in names if name.endswith(("_events", "_event"))), "")


SENDER = Sender(
    title="X (Twitter)",
    verification=Hmac(header="x-twitter-webhooks-signature", prefix="sha256=", encoding="base64"),
    events=Events(id=(), type=_top_level, ordering="for_user_id", strict_type=True),
    handshake=SignedChallenge(
        query="crc_token", encoding="base64", reply=lambda challenge, signed: {"response_token": f"sha256={signed}"}
    ),
    retries=False,
    setup=(
        "Register the URL of the source with `POST /2/webhooks`. The consumer secret of the app is the secret of "
        "the source."
    ),
    failure=(
        "X wants 200 within 10 s and does not retry by itself; a replay can be asked for. If the check with "
        "`crc_token` fails, it stops sending."
    ),
    facts=("xdevplatform/docs x-api/webhooks",),
)
