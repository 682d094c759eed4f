"""A sender that is only data: one `Sender` describes how it signs, where its events are, and what they look like."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from onceward.webhooks.events import Events
from onceward.webhooks.families import Verification
from onceward.webhooks.provider import Provider, ProviderReply, Request, SourceConfig
from onceward.webhooks.samples import apply_fields, token

Challenge = Callable[[SourceConfig, Request], ProviderReply | None]


@dataclass(frozen=True, kw_only=True, eq=False)
class Sender(Provider):
    """A provider whose verification and events are values.

    `samples` maps types to payloads. Each sample that is sent gets a new id at the path of the event id, and the
    headers that `events` reads. `handshake` answers a request that only checks the address.
    """

    name: str
    title: str
    verification: Verification
    events: Events
    samples: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    sample_headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    handshake: Challenge | None = None
    retries: bool = True
    bad_signature_status: int = 401

    sample_types: tuple[str, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sample_types", tuple(self.samples))

    def challenge(self, config: SourceConfig, request: Request) -> ProviderReply | None:
        return None if self.handshake is None else self.handshake(config, request)

    def sign(self, config: SourceConfig, body: bytes, now: float, **extra: str) -> dict[str, str]:
        extra["event_id"] = extra.get("event_id") or token("evt_")
        headers = self.events.sample_headers(extra["event_id"], extra.get("type", ""))
        return headers | dict(self.sample_headers) | super().sign(config, body, now, **extra)

    def sample(self, type: str, fields: Mapping[str, Any] | None = None) -> Any:
        empty: dict[str, Any] = {}
        payload = self.samples.get(type, next(iter(self.samples.values()), empty))
        return apply_fields(deepcopy(payload), {**self.events.sample_paths(token("evt_"), type), **(fields or {})})
