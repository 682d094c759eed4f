"""What the receiver needs of a way to prove who sent a request. Each family of schemes is one class."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from onceward.webhooks.provider import Fetch, Request, SourceConfig


class Verification(Protocol):
    """Verifies the requests of a source. A value is immutable and shared by all sources of its sender."""

    @property
    def signature_headers(self) -> tuple[str, ...]:
        """The headers that are stored as evidence of the signature. Never a header whose value is itself a secret."""
        ...

    @property
    def covers_body(self) -> bool:
        """Whether somebody who changes the body is noticed."""
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
        """Return the headers of a request that `verify` accepts at `now`. `extra` may have `event_id`, `path`,
        `query`."""
        ...

    def complete(self, config: SourceConfig, body: bytes, now: float) -> tuple[bytes, str]:
        """Return the body and the query of a request that is to be signed: with the signature, if the scheme puts
        it there."""
        ...


@runtime_checkable
class FetchingVerification(Verification, Protocol):
    """A verification that needs something from the sender's host before it can verify a request."""

    async def prepare(self, config: SourceConfig, request: Request, fetch: Fetch) -> Request:
        """Fetch what `verify` needs, and return the request to go on with."""
        ...
