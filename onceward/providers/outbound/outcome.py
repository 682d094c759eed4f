"""What a call to an outside service came to: one closed set for all services.

Handle it with `match` and end in `assert_never`:

    Accepted     the service has it
    Refused      the service answered no; `permanent` says whether asking again can help
    Throttled    the service asks for a pause; it did not act
    Unreachable  nothing was sent
    Unknown      it was sent and may have been done: repeat only where the service is `repeatable`
                 (same key, no second effect), else read back or ask a person
    Absent       only from a read-back: the service does not have it, so sending again is safe
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Detail = Mapping[str, Any]


def _no_detail() -> Detail:
    return {}


@dataclass(frozen=True, slots=True)
class Accepted:
    """The service has it, under `reference` where it gives one. `detail` is what it said about it."""

    reference: str | None = None
    detail: Detail = field(default_factory=_no_detail, repr=False)


@dataclass(frozen=True, slots=True)
class Refused:
    """The service, or a limit of it that we know, said no. `detail` has codes and what failed of a batch.

    `account`: the service refused our credentials (401, 403), not this call. The call can succeed once an operator
    has set valid credentials, so it is not `permanent`.
    """

    reason: str
    permanent: bool
    retry_after_s: float | None = None
    detail: Detail = field(default_factory=_no_detail, repr=False)
    account: bool = False


@dataclass(frozen=True, slots=True)
class Throttled:
    """Too much at once; None when the service does not say how long to wait."""

    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Unreachable:
    """Nothing was sent: it counts against the channel, not against the message."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """Sent, outcome not known."""

    reason: str


@dataclass(frozen=True, slots=True)
class Absent:
    """A read-back found nothing."""


Outcome = Accepted | Refused | Throttled | Unreachable | Unknown
Lookup = Accepted | Absent | Refused | Throttled | Unreachable | Unknown
