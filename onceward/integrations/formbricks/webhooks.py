"""Formbricks: Standard Webhooks v1. An option accepts old webhooks that Formbricks does not sign."""

from __future__ import annotations

from pydantic import BaseModel

from onceward.webhooks.events import Derive, Events, Header
from onceward.webhooks.families import StandardWebhooks
from onceward.webhooks.payload import (
    read_object,
)
from onceward.webhooks.provider import (
    ConfigError,
    NoOptions,
    Provider,
    ProviderReply,
    Rejected,
    Request,
    SourceConfig,
)
from onceward.webhooks.samples import hex_token


class FormbricksOptions(NoOptions):
    """`allow_unsigned` is for webhooks that have no secret in Formbricks: anyone can send."""

    allow_unsigned: bool = False


class Formbricks(Provider):
    """Formbricks tries three times, starting after 5 s. The event id is `webhook-id`, the same in each attempt."""

    name = "formbricks"
    title = "Formbricks"
    options_model: type[BaseModel] = FormbricksOptions

    verification = StandardWebhooks(header_prefixes=("webhook",))
    events = Events(
        id=(Header("webhook-id"), Derive("event", "data.id", "data.updatedAt")),
        type="event",
        ordering="data.id",
        data="data",
        strict_type=True,
    )

    def check(self, config: SourceConfig) -> None:
        if config.keys and config.settings.allow_unsigned:
            raise ConfigError(
                "option allow_unsigned with a secret: a request without a signature would pass; remove one of them"
            )

    def verify(self, config: SourceConfig, request: Request, now: float) -> None:
        if config.settings.allow_unsigned:
            return
        if config.keys and not request.headers.get(self.verification.signature_headers[0]):
            raise Rejected(
                "unsigned", "the request is not signed: give the webhook a secret, or allow unsigned requests"
            )
        super().verify(config, request, now)

    def challenge(self, config: SourceConfig, request: Request) -> ProviderReply | None:
        if request.method != "POST" or b'"testEndpoint"' not in request.body:
            return None
        return ProviderReply() if read_object(request.body).value.get("event") == "testEndpoint" else None

    def sign(self, config: SourceConfig, body: bytes, now: float, **extra: str) -> dict[str, str]:
        extra["event_id"] = extra.get("event_id") or hex_token("", 64)
        if config.keys:
            return super().sign(config, body, now, **extra)
        return {
            "content-type": "application/json",
            "webhook-id": extra["event_id"],
            "webhook-timestamp": str(int(now)),
        }
