"""A sender that is only data: one `Sender` describes how it signs, where its events are, and what they look like."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from onceward.webhooks.events import Events
from onceward.webhooks.families import Verification
from onceward.webhooks.provider import Provider, ProviderReply, Request, SourceConfig
from onceward.webhooks.samples import Samples, token

Challenge = Callable[[SourceConfig, Request], ProviderReply | None]


@dataclass(frozen=True, kw_only=True, eq=False)
class Sender(Provider):
    """A provider whose verification and events are values.

    `samples` are those of the integration's folder, if left out. A sample that is sent gets the headers that `events` reads.
    `handshake` answers a request that only checks the address.
    """

    name: str
    title: str
    verification: Verification
    events: Events
    samples: Samples = field(default_factory=Samples, repr=False)
    sample_headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    handshake: Challenge | None = None
    retries: bool = True
    bad_signature_status: int = 401

    def challenge(self, config: SourceConfig, request: Request) -> ProviderReply | None:
        return None if self.handshake is None else self.handshake(config, request)

    def sign(self, config: SourceConfig, body: bytes, now: float, **extra: str) -> dict[str, str]:
        extra["event_id"] = extra.get("event_id") or token("evt_")
        headers = self.events.sample_headers(extra["event_id"], extra.get("type", ""))
        return headers | dict(self.sample_headers) | super().sign(config, body, now, **extra)
