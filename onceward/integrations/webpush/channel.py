"""Web Push: a title and a short text for one browser."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Literal

import orjson

from onceward.lazy import lazy_module
from onceward.messages.channel import ChannelSetup, ChannelSource, Letter, Turns
from onceward.messages.rendering import cut
from onceward.services.outcome import Lookup, Refused, ServiceAnswer

if TYPE_CHECKING:
    from onceward.integrations.webpush import client
    from onceward.integrations.webpush.settings import WebPushSettings
else:
    client = lazy_module("onceward.integrations.webpush.client")

MOST_CHARACTERS = 600
DEFAULT_TTL_S = 24 * 3600


class PushChannel:
    """Sends to a browser. The address is its subscription as JSON: endpoint, p256dh, auth."""

    name: Literal["push"] = "push"
    repeatable_for_s = 0.0
    readable = False

    def __init__(self, push: client.WebPush, *, sender: str = "vapid") -> None:
        self._push = push
        self._turns = Turns()
        self.sender = sender

    def turn(self) -> AbstractAsyncContextManager[None]:
        return self._turns.take()

    async def send(self, letter: Letter) -> ServiceAnswer:
        subscription = _subscription(letter.to)
        if subscription is None:
            return Refused("the recipient's push subscription has no endpoint and keys", permanent=True)
        content: dict[str, Any] = {"title": letter.rendered.subject, "body": cut(letter.rendered.text, MOST_CHARACTERS)}
        for name in ("url", "metadata"):
            if name in letter.data:
                content[name] = letter.data[name]
        payload = orjson.dumps(content)
        if len(payload) > client.MAX_PLAIN_BYTES:
            payload = orjson.dumps({"title": content["title"], "body": content["body"]})
        remaining_s = letter.remaining_s()
        ttl_s = DEFAULT_TTL_S if remaining_s is None else round(remaining_s)
        return await self._push.push(subscription, payload, key=letter.key, ttl_s=ttl_s)

    async def look_up(self, letter: Letter) -> Lookup:
        raise NotImplementedError("Web Push cannot look up a push that was sent")

    async def aclose(self) -> None: ...


def _subscription(text: str) -> client.Subscription | None:
    """Parse both shapes: flat, and with nested keys as `PushSubscription.toJSON()` writes them."""
    try:
        fields: Any = orjson.loads(text)
        keys: Any = fields.get("keys", fields)
        return client.Subscription(str(fields["endpoint"]), str(keys["p256dh"]), str(keys["auth"]))
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        return None


def configured(setup: ChannelSetup) -> PushChannel | None:
    """Return the channel of the key in the settings."""
    settings: WebPushSettings = setup.settings_of("webpush")
    if not (settings.private_key and settings.subject):
        return None
    vapid = client.VapidKey(settings.private_key.get_secret_value())
    return PushChannel(client.WebPush(setup.guarded, vapid=vapid, subject=settings.subject))


CHANNEL = ChannelSource(name="push", configured=configured)
