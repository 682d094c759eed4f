"""A request's headers, decoded on access: only two or three of about a dozen headers are ever read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from onceward.integration import integrations

KEPT = frozenset({"content-type", "user-agent", "x-request-id", "traceparent", "tracestate"})
"""Headers that are stored with every event. Others may contain credentials or personal data."""

MAX_KEPT_CHARS = 1024

Kept = tuple[tuple[bytes, bytes], ...]


class Headers(Mapping[str, str]):
    """A mapping of lower-case names to latin-1 values. The values of a repeated header are joined by commas."""

    __slots__ = ("raw",)

    def __init__(self, raw: Sequence[tuple[bytes, bytes]]) -> None:
        values = dict(raw)
        if len(values) != len(raw):
            values.clear()
            for name, value in raw:
                values[name] = values[name] + b", " + value if name in values else value
        self.raw = values

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


def kept_names(provider: str) -> frozenset[bytes]:
    """Return the names of the headers to store: those of every event, and those that the provider's integration
    declares."""
    known = integrations().get(provider)
    declared = () if known is None else known.kept_headers
    return frozenset(name.encode("latin-1") for name in (*KEPT, *declared))


def kept(headers: Headers, names: frozenset[bytes]) -> Kept:
    """Return the headers to store, as they arrived."""
    return tuple([item for item in headers.raw.items() if item[0] in names])


def as_json(items: Kept) -> str:
    """Return the headers to store as JSON for the column `headers`."""
    decoded = ((name.decode("latin-1"), value.decode("latin-1")[:MAX_KEPT_CHARS]) for name, value in items)
    return orjson.dumps({name: value for name, value in decoded if value.isprintable()}).decode()
