"""Pusher Channels: `X-Pusher-Signature`, hexadecimal HMAC-SHA256 of the body with the app secret."""

from __future__ import annotations

from typing import Any

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.payload import as_object, derived_key, read_json
from onceward.webhooks.provider import Request
from onceward.webhooks.sender import Sender


def _id(request: Request, event: Any) -> str:
    """Return a hash of the event and the `time_ms` of its request: a channel may be occupied twice."""
    return derived_key((as_object(read_json(request.body).value).get("time_ms"), event))


SENDER = Sender(
    title="Pusher Channels",
    verification=Hmac(header="x-pusher-signature"),
    sample_headers={"x-pusher-key": "278d425bdf160c739803"},
    events=Events(items="events", id=_id, type="name", ordering="channel"),
    setup=(
        "In the app's settings, under Webhooks, add the URL of the source. The secret of the app key is the "
        "secret of the source."
    ),
    failure="Pusher retries with increasing delays for five minutes.",
    notes="`X-Pusher-Key` names the key that signed; all secrets of the source are tried.",
    facts=("pusher/pusher-http-python",),
    unconfirmed=("retries",),
)
