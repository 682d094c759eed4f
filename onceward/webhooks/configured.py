"""Providers of unknown senders: the options say how a request is verified and where its events are."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from onceward.webhooks.events import Events, Header
from onceward.webhooks.provider import NoOptions, Provider, ReceivedItem, Request, SourceConfig
from onceward.webhooks.samples import apply_fields, token


class ReadingOptions(NoOptions):
    """Where the id and type are in a request. Paths are dotted: `event.id`, `items.0.id`.

    An event without an id is identified by a hash of its body: two equal bodies are one event. `items` is the path of
    an array whose elements are separate events; a body that is an array is always split. The other paths are then
    relative to the element.
    """

    items: str = ""
    id_header: str = ""
    id_field: str = "id"
    id_per_type: bool = False
    type_header: str = ""
    type_field: str = "type"
    default_type: str = "webhook"
    ordering_field: str = ""
    retries: bool = False

    @cached_property
    def events(self) -> Events:
        """The places as a value."""
        return Events(
            id=_places(self.id_header, self.id_field),
            type=_places(self.type_header, self.type_field),
            default_type=self.default_type,
            ordering=self.ordering_field or (),
            items=self.items or ".",
            body="any",
            id_per_type=self.id_per_type,
        )

    def sample_headers(self, event_id: str, type: str) -> dict[str, str]:
        """Return the headers of a sample that are not part of its verification."""
        headers = {"content-type": "application/json"}
        if self.id_header:
            headers[self.id_header.lower()] = event_id
        if self.type_header:
            headers[self.type_header.lower()] = type or self.default_type
        return headers


class ConfiguredProvider(Provider):
    """A provider whose options say how a request is verified and where its events are."""

    retries = False

    def decode_secret(self, secret: str, settings: Any) -> bytes:
        return settings.verification.decode_secret(secret)

    def check(self, config: SourceConfig) -> None:
        config.settings.verification.check(config)

    def signature_headers(self, config: SourceConfig) -> tuple[str, ...]:
        return config.settings.verification.signature_headers

    def verify(self, config: SourceConfig, request: Request, now: float) -> None:
        config.settings.verification.verify(config, request, now)

    def parse(self, config: SourceConfig, request: Request) -> list[ReceivedItem]:
        return config.settings.events.read(request)

    def data(self, payload: Any) -> Any:
        return payload

    def sign(self, config: SourceConfig, body: bytes, now: float, **extra: str) -> dict[str, str]:
        extra["event_id"] = extra.get("event_id") or token("evt_")
        headers = config.settings.sample_headers(extra["event_id"], extra.get("type", ""))
        return headers | config.settings.verification.sign(config, body, now, **extra)

    def complete(self, config: SourceConfig, body: bytes, now: float) -> tuple[bytes, str]:
        return config.settings.verification.complete(config, body, now)

    def change_type(self, payload: Any, type: str) -> Any:
        return apply_fields(payload, {"type": type})


def _places(header: str, path: str) -> tuple[Header | str, ...]:
    return (*((Header(header),) if header else ()), *((path,) if path else ()))
