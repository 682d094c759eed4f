"""What the receiver needs of a way to prove who sent a request. Each family of schemes is one class."""

from __future__ import annotations

from typing import Protocol

from onceward.webhooks.provider import Request, SourceConfig


class Verification(Protocol):
    """Verifies the requests of a source. A value is immutable and shared by all sources of its sender."""

    @property
    def signature_headers(self) -> tuple[str, ...]:
        """The headers that are stored as evidence of the signature. Never a header whose value is itself a secret."""
        ...

    def decode_secret(self, secret: str) -> bytes:
        """Return the key bytes of a secret as the sender shows it. Raise ValueError if the format is wrong."""
        ...

    def check(self, config: SourceConfig) -> None:
        """Raise ConfigError for a configuration that would reject every request, or accept every request."""
        ...

    def verify(self, config: SourceConfig, request: Request, now: float) -> None:
        """Raise Rejected unless the raw bytes are authentic and not expired at `now` (Unix seconds)."""
        ...

    def sign(self, config: SourceConfig, body: bytes, now: float, **extra: str) -> dict[str, str]:
        """Return the headers of a request that `verify` accepts at `now`. `extra` may have `event_id`, `path`, `query`."""
        ...
