"""What the outbox refuses, by name. The HTTP status is chosen in `onceward.web`.

OutboxError
├── Invalid            a field that does not fit; says which, what it was, and what would fit
├── UnknownType        an event type that nobody declared
├── KeyReused          an idempotency key that was used for something else
└── NotResent          a delivery that cannot be sent again now; says why
"""

from __future__ import annotations


class OutboxError(Exception):
    """Anything this package raises by itself."""


class Invalid(OutboxError):
    """One field of what was asked for does not fit."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


class UnknownType(Invalid):
    """The catalogue has no such event type."""


class KeyReused(OutboxError):
    """The same key stands for another type, channel or data."""


class NotResent(OutboxError):
    """Running at this moment, its body pruned, or its endpoint disabled."""
