"""Daily.co: HMAC-SHA256 of `timestamp.body`, timestamp in milliseconds, key and signature in base64."""

from __future__ import annotations

from typing import Final

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.provider import Provider, ProviderReply, ReceivedItem, Request, SourceConfig

_PROBE: Final = b'{"test":"test"}'


class Daily(Provider):
    """Daily disables a webhook after a few failures, so every authentic request is acknowledged."""

    name = "daily"
    title = "Daily.co"
    sample_secret = Provider.sample_secret.removeprefix("whsec_")
    # By default Daily has a circuit breaker instead of retries, so error responses must be rare.
    retries = False

    verification = Hmac(
        header="x-webhook-signature",
        signed="{timestamp}.{body}",
        encoding="base64",
        timestamp="x-webhook-timestamp",
        timestamp_unit="ms",
        key_encoding="base64",
    )
    # Rooms are `room` in some events and `room_name` in others.
    events = Events(ordering=("payload.room", "payload.room_name"), data="payload", strict=True)

    def verify(self, config: SourceConfig, request: Request, now: float) -> None:
        # Daily sends this before the secret is known. Forging it is useless, because it never becomes an event.
        if not _is_probe(request):
            super().verify(config, request, now)

    def challenge(self, config: SourceConfig, request: Request) -> ProviderReply | None:
        return ProviderReply() if _is_probe(request) else None

    def parse(self, config: SourceConfig, request: Request) -> list[ReceivedItem]:
        return [] if _is_probe(request) else super().parse(config, request)


def _is_probe(request: Request) -> bool:
    return len(request.body) <= 32 and b"".join(request.body.split()) == _PROBE
