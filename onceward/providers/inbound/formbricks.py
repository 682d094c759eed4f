"""Formbricks: Standard Webhooks v1. An option accepts old webhooks that Formbricks does not sign."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel

from onceward.providers.inbound import signature
from onceward.providers.inbound.payload import (
    as_object,
    as_text,
    derived_key,
    item,
    read_object,
    required_text,
)
from onceward.providers.inbound.provider import (
    ConfigError,
    NoOptions,
    Provider,
    ProviderReply,
    ReceivedItem,
    Rejected,
    Request,
    SourceConfig,
)
from onceward.providers.inbound.samples import apply_fields, hex_token, iso_now, token
from onceward.providers.inbound.standard import WEBHOOK


class FormbricksOptions(NoOptions):
    """`allow_unsigned` is for webhooks that have no secret in Formbricks: anyone can send."""

    allow_unsigned: bool = False


class Formbricks(Provider):
    """Formbricks tries three times, starting after 5 s. The event id is `webhook-id`, the same in each attempt."""

    name: ClassVar[str] = "formbricks"
    title: ClassVar[str] = "Formbricks"
    options_model: ClassVar[type[BaseModel]] = FormbricksOptions
    sample_types: ClassVar[tuple[str, ...]] = ("responseCreated", "responseUpdated", "responseFinished")

    def decode_secret(self, secret: str, settings: Any) -> bytes:
        return signature.decode_key("whsec", secret)

    def check(self, config: SourceConfig) -> None:
        if config.keys and config.settings.allow_unsigned:
            raise ConfigError(
                "option allow_unsigned with a secret: a request without a signature would pass; remove one of them"
            )

    def verify(self, config: SourceConfig, request: Request, now: float) -> None:
        if config.settings.allow_unsigned:
            return
        if config.keys and not request.headers.get(WEBHOOK.header):
            raise Rejected(
                "unsigned", "the request is not signed: give the webhook a secret, or allow unsigned requests"
            )
        signature.verify(WEBHOOK, config, request, now)

    def challenge(self, config: SourceConfig, request: Request) -> ProviderReply | None:
        if request.method != "POST" or b'"testEndpoint"' not in request.body:
            return None
        return ProviderReply() if read_object(request.body).value.get("event") == "testEndpoint" else None

    def parse(self, config: SourceConfig, request: Request) -> list[ReceivedItem]:
        document = read_object(request.body)
        event = required_text(document, "event")
        response = as_object(document.value.get("data"))
        updated = as_text(response.get("updatedAt"))
        response_id = as_text(response.get("id"))
        return [
            item(
                document,
                event_id=request.optional_header("webhook-id") or derived_key((event, response_id, updated)),
                type=event,
                ordering=response_id,
            )
        ]

    def data(self, payload: Any) -> Any:
        return as_object(payload).get("data", payload)

    def sign(self, config: SourceConfig, body: bytes, now: float, **extra: str) -> dict[str, str]:
        event_id = extra.get("event_id") or hex_token("", 64)
        headers = {"content-type": "application/json"}
        if not config.keys:
            return headers | {WEBHOOK.id: event_id, WEBHOOK.timestamp: str(int(now))}
        return headers | signature.sign(WEBHOOK, config.keys[0], body, now, event_id)

    def sample(self, type: str, fields: Mapping[str, Any] | None = None) -> Any:
        finished = type == "responseFinished"
        payload: dict[str, Any] = {
            "webhookId": token("", 24).lower(),
            "event": type,
            "data": {
                "id": token("", 24).lower(),
                "surveyId": token("", 24).lower(),
                "createdAt": iso_now(minutes=-2),
                "updatedAt": iso_now(),
                "finished": finished,
                "endingId": token("", 24).lower() if finished else None,
                "displayId": token("", 24).lower(),
                "singleUseId": None,
                "language": "en",
                "contact": None,
                "contactAttributes": None,
                "tags": [],
                "variables": {},
                "ttc": {"rating": 1830.5},
                "meta": {
                    "url": "https://surveys.example.com/s/feedback",
                    "country": "DE",
                    "userAgent": {"browser": "Firefox", "device": "desktop", "os": "Linux"},
                },
                "data": {"rating": 5, "comment": "More exercises, please."},
                "survey": {
                    "title": "Course feedback",
                    "type": "link",
                    "status": "inProgress",
                    "createdAt": iso_now(minutes=-1440),
                    "updatedAt": iso_now(minutes=-60),
                },
            },
        }
        return apply_fields(payload, fields)
