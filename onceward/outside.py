"""The seam between a handler and the outside world: a rehearsal sees calls here and refuses them.

Calls of our own HTTP clients, files and processes pass `leave`. In production it compares a context variable with None.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

from onceward.errors import Signal

KEY_HEADERS = ("idempotency-key", "x-idempotency-key", "request-id")


@dataclass(frozen=True, slots=True)
class OutsideCall:
    """A call that a handler wanted to make: `POST` of a URL, `PUT` of a file, `RUN` of a process."""

    verb: str
    target: str
    key: str | None = None
    """The idempotency key that the call carries."""


class OutsideRefused(Signal):
    """A rehearsal refused a call to the outside. It leaves the handler even through `except Exception`."""

    def __init__(self, call: OutsideCall) -> None:
        super().__init__(f"{call.verb} {call.target}")
        self.call = call


class Outside(Protocol):
    """What a rehearsal does with calls to the outside."""

    def call(self, call: OutsideCall) -> None:
        """Note a call. Raise `OutsideRefused` unless it may be made."""
        ...

    def note(self, call: OutsideCall) -> None:
        """Note a call that is neither made nor answered, such as the write of a file."""
        ...


OUTSIDE: ContextVar[Outside | None] = ContextVar("outside", default=None)


def leave(verb: str, target: str, headers: Mapping[str, str] | None = None) -> None:
    """Announce a call to the outside. Raises `OutsideRefused` in a rehearsal."""
    outside = OUTSIDE.get()
    if outside is not None:
        outside.call(OutsideCall(verb, without_query(target), _key_of(headers or {})))


def is_withheld(verb: str, target: str) -> bool:
    """Return whether an effect outside the database must not happen, because a rehearsal runs. Then it is noted."""
    outside = OUTSIDE.get()
    if outside is None:
        return False
    outside.note(OutsideCall(verb, target))
    return True


def without_query(url: str) -> str:
    """Return a URL without its query, fragment and password, which may be secret."""
    head = url.split("?", 1)[0].split("#", 1)[0]
    scheme, separator, rest = head.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}" if separator else head


def _key_of(headers: Mapping[str, str]) -> str | None:
    return next((value for name, value in headers.items() if name.lower().endswith(KEY_HEADERS)), None)
