"""The errors of the outbox. `routes/errors.py` chooses their HTTP status.

OutboxError
├── Invalid            a field has an invalid value; names the field, the value and what is allowed
│   └── UnknownType    an event type that is not in the catalogue
├── ExpressionFailed   the filter or the transformation of an endpoint does not fit an event
├── KeyReused          an idempotency key that was used with different content
├── NotResent          a delivery that cannot be sent again now, with the reason
└── TokenRefused       a token endpoint gave no token
"""

from __future__ import annotations

from onceward.errors import OncewardError


class OutboxError(OncewardError):
    """The root of all errors of this package."""


class Invalid(OutboxError):
    """One field of the request has an invalid value."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


class UnknownType(Invalid):
    """The event type is not in the catalogue."""


class KeyReused(OutboxError):
    """The key was already used with a different type, channels or data."""


class NotResent(OutboxError):
    """The delivery is running, its body was pruned, or its endpoint is disabled."""


class ExpressionFailed(OutboxError):
    """An expression cannot be evaluated for this event. The message says why, without data of the event."""


class TokenRefused(OutboxError):
    """The token endpoint of an endpoint gave no token. The message contains nothing that it answered."""
