"""A request's headers, decoded when somebody asks: of a dozen that arrive, two or three are looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

KEPT = frozenset(
    {
        b"content-type",
        b"user-agent",
        b"webhook-id",
        b"webhook-timestamp",
        b"svix-id",
        b"svix-timestamp",
        b"x-cal-webhook-version",
        b"x-github-delivery",
        b"x-github-event",
        b"x-github-hook-id",
        b"x-slack-request-timestamp",
        b"x-slack-retry-num",
        b"x-slack-retry-reason",
        b"x-webhook-timestamp",
        b"paypal-auth-algo",
        b"paypal-transmission-id",
        b"paypal-transmission-time",
        b"i-twilio-idempotency-token",
        b"x-request-id",
        b"traceparent",
    }
)
"""Headers that are stored with an event. All others may hold credentials or addresses of people."""

MAX_KEPT_CHARS = 1024

Kept = tuple[tuple[bytes, bytes], ...]


class Headers(Mapping[str, str]):
    """Names in lower case, values as latin-1; a header sent more than once is joined by commas."""

    __slots__ = ("raw",)

    def __init__(self, raw: Sequence[tuple[bytes, bytes]]) -> None:
        found = dict(raw)
        if len(found) != len(raw):
            found.clear()
            for name, value in raw:
                found[name] = found[name] + b", " + value if name in found else value
        self.raw = found

    def __getitem__(self, name: str) -> str:
        return self.raw[name.encode("latin-1")].decode("latin-1")

    def get(self, name: str, default: Any = None) -> Any:
        value = self.raw.get(name.encode("latin-1"))
        return default if value is None else value.decode("latin-1")

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.encode("latin-1") in self.raw

    def __iter__(self) -> Iterator[str]:
        return (name.decode("latin-1") for name in self.raw)

    def __len__(self) -> int:
        return len(self.raw)


def kept(headers: Headers) -> Kept:
    """Those that are stored, as they arrived."""
    return tuple([item for item in headers.raw.items() if item[0] in KEPT])


def as_json(items: Kept) -> str:
    """Those that are stored, as the column holds them."""
    decoded = ((name.decode("latin-1"), value.decode("latin-1")[:MAX_KEPT_CHARS]) for name, value in items)
    return orjson.dumps({name: value for name, value in decoded if value.isprintable()}).decode()
