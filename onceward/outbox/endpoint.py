"""The public fields of an endpoint, and the rules that they must satisfy. Nothing here uses the database."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from onceward.outbox.catalogue import MAX_NAME, NAME
from onceward.outbox.errors import Invalid
from onceward.outbox.schedule import LONGEST_WAIT_S, MOST_WAITS
from onceward.outbox.signing import read_secret

MAX_EVENTS = 200
MAX_CHANNELS = 20
MAX_HEADERS = 20
MAX_HEADER_BYTES = 4096
MAX_METADATA_BYTES = 16 << 10
MAX_DESCRIPTION = 500
MOST_IN_FLIGHT = 100
MOST_PER_S = 10_000.0

CHANNEL = re.compile(r"^[A-Za-z0-9._:-]{1,128}$")
HEADER_NAME = re.compile(r"^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$")
ADDRESS = re.compile(r"^[^@\s]+@[^@\s]+$")

DENIED_HEADERS = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "cookie",
        "expect",
        "forwarded",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
        "via",
    }
)
DENIED_PREFIXES = ("proxy-", "sec-", "svix-", "webhook-", "x-amz-", "x-forwarded-", "x-real-", "x-webhook-")
"""Customers may not set headers that frame the request, state its origin or carry our signature."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint as the API shows it: without secrets, and with the names of its headers only."""

    endpoint_id: UUID
    organization_id: UUID | None
    url: str
    description: str
    events: list[str]
    channels: list[str] | None
    header_names: list[str]
    metadata: dict[str, Any]
    owner: str | None
    active: bool
    disabled_at: datetime | None
    disabled_reason: str | None
    max_in_flight: int | None
    rate_per_s: float | None
    ordered: bool
    retry_waits_s: list[float] | None
    ed25519: bool
    filter: str | None
    transform: str | None
    auth_kind: str | None
    """`oauth` or `mutual_tls`, if we authenticate with more than our signature."""
    source: str | None
    """The inbound source whose events the endpoint gets, instead of published ones."""
    created_at: datetime
    succeeded: int = 0
    """Attempts that the endpoint answered with 2xx, counted a few seconds after they end."""
    failed: int = 0
    """Attempts that failed."""
    last_triggered_at: datetime | None = None
    """When the last attempt ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointFields:
    """The fields that a customer sets. `check` validates all of them except the address, which the HTTP client
    checks."""

    url: str
    events: Sequence[str]
    secret: str | None = None
    description: str = ""
    channels: Sequence[str] | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    owner: str | None = None
    max_in_flight: int | None = None
    rate_per_s: float | None = None
    ordered: bool = False
    retry_waits_s: Sequence[float] | None = None
    ed25519: bool = False
    filter: str | None = None
    transform: str | None = None
    auth: Mapping[str, Any] | None = None
    source: str | None = None

    def check(self) -> None:
        """Raise `Invalid` for the first invalid field."""
        _check_events(self.events, forwarded=self.source is not None)
        for name, text in (("filter", self.filter), ("transform", self.transform)):
            if text is not None:
                from onceward.outbox.expressions import check_expression

                check_expression(name, text)
        if self.auth is not None:
            from onceward.outbox.endpoint_auth import check_auth

            check_auth(self.auth)
            if self.auth["kind"] == "oauth" and any(name.lower() == "authorization" for name in self.headers):
                raise Invalid("headers", "contains Authorization, which auth sets: remove one of them")
        if self.secret is not None:
            read_secret(self.secret)
        if len(self.description) > MAX_DESCRIPTION:
            raise Invalid(
                "description", f"has {len(self.description)} characters, at most {MAX_DESCRIPTION} are allowed"
            )
        _check_channels(self.channels)
        _check_headers(self.headers)
        _check_metadata(self.metadata)
        if self.owner is not None and (len(self.owner) > 320 or not ADDRESS.match(self.owner)):
            raise Invalid("owner", "must be a mail address like name@example.org")
        if self.max_in_flight is not None and not 1 <= self.max_in_flight <= MOST_IN_FLIGHT:
            raise Invalid("max_in_flight", f"must be between 1 and {MOST_IN_FLIGHT}, not {self.max_in_flight}")
        if self.ordered and self.max_in_flight not in (None, 1):
            raise Invalid("max_in_flight", f"must be 1 for an ordered endpoint, not {self.max_in_flight}")
        if self.rate_per_s is not None and not 0.001 <= self.rate_per_s <= MOST_PER_S:
            raise Invalid("rate_per_s", f"must be between 0.001 and {MOST_PER_S:g}, not {self.rate_per_s:g}")
        _check_waits(self.retry_waits_s)


def _check_events(events: Sequence[str], *, forwarded: bool = False) -> None:
    if isinstance(events, str) or not events:
        raise Invalid("events", "must be a list of at least one event type, or ['*'] for all")
    if len(events) > MAX_EVENTS:
        raise Invalid("events", f"has {len(events)} entries, at most {MAX_EVENTS} are allowed; use a wildcard")
    for event in events:
        name = event.removesuffix(".*")
        if forwarded:  # types of a sender, such as `orders/create`
            if not 1 <= len(event) <= MAX_NAME or not event.isascii() or not event.isprintable():
                raise Invalid("events", f"{event[:MAX_NAME]!r} must have 1 to {MAX_NAME} printable ASCII characters")
        elif event != "*" and (len(event) > MAX_NAME or not NAME.match(name)):
            raise Invalid("events", f"{event[:MAX_NAME]!r} is not an event type; write `order.paid`, `order.*` or `*`")
    if len(set(events)) < len(events):
        raise Invalid("events", "contains an event type twice")


def _check_channels(channels: Sequence[str] | None) -> None:
    if channels is None:
        return
    if isinstance(channels, str) or not 1 <= len(channels) <= MAX_CHANNELS:
        raise Invalid("channels", f"must be a list of 1 to {MAX_CHANNELS} names, or omitted for all channels")
    for channel in channels:
        if not CHANNEL.match(channel):
            raise Invalid("channels", f"{channel[:128]!r} must be 1 to 128 letters, digits, dots, colons, dashes")


def _check_headers(headers: Mapping[str, str]) -> None:
    if len(headers) > MAX_HEADERS:
        raise Invalid("headers", f"has {len(headers)} entries, at most {MAX_HEADERS} are allowed")
    seen: set[str] = set()
    for name, value in headers.items():
        lower = name.lower()
        if not HEADER_NAME.match(name):
            raise Invalid("headers", f"{name[:128]!r} is not a valid header name")
        if lower in seen:
            raise Invalid("headers", f"{name!r} is given twice; header names ignore case")
        if lower in DENIED_HEADERS or lower.startswith(DENIED_PREFIXES):
            raise Invalid("headers", f"{name!r} is reserved; use another name, like X-Api-Key")
        if len(value) > MAX_HEADER_BYTES:
            raise Invalid("headers", f"{name!r} has {len(value)} characters, at most {MAX_HEADER_BYTES} are allowed")
        if not value.isascii() or not value.isprintable():
            raise Invalid("headers", f"{name!r} contains a character that is not printable ASCII")
        seen.add(lower)


def _check_metadata(metadata: Mapping[str, Any]) -> None:
    try:
        size = len(orjson.dumps(dict(metadata)))
    except (TypeError, ValueError) as error:
        raise Invalid("metadata", f"cannot be written as JSON: {error}") from None
    if size > MAX_METADATA_BYTES:
        raise Invalid("metadata", f"has {size} bytes, at most {MAX_METADATA_BYTES} are allowed")


def _check_waits(waits: Sequence[float] | None) -> None:
    if waits is None:
        return
    if len(waits) > MOST_WAITS:
        raise Invalid("retry_waits_s", f"has {len(waits)} waits, at most {MOST_WAITS} are allowed")
    for wait in waits:
        if not 1 <= wait <= LONGEST_WAIT_S:
            raise Invalid("retry_waits_s", f"each wait must be between 1 and {LONGEST_WAIT_S:g} seconds, not {wait:g}")
