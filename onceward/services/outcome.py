"""The answer of an external service to a call: one closed set for all services.

Handle it with `match` and end in `assert_never`:

    Accepted     the service accepted the request
    Refused      the service refused the request; if `permanent`, a retry cannot help
    Throttled    the service asks for a pause; it did not act
    Unreachable  nothing was sent
    Unknown      the request was sent and may have taken effect: repeat it only if the service is `repeatable`
                 (same key, no second effect), otherwise look it up or ask a person
    Absent       only from a lookup: the service does not have the object, so sending again is safe
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

Detail = Mapping[str, Any]
AnswerName = Literal["accepted", "refused", "throttled", "unreachable", "unknown"]
"""The value of the label `outcome` of `onceward_message_sends_total`."""


def _no_detail() -> Detail:
    return {}


@dataclass(frozen=True, slots=True)
class Accepted:
    """The service accepted the request. `reference` is the service's id, if it gives one; `detail` is its response.

    `is_replay`: the service had carried out a call with the same key before and repeats its answer, which may be old.
    """

    label: ClassVar[AnswerName] = "accepted"
    reference: str | None = None
    detail: Detail = field(default_factory=_no_detail, repr=False)
    is_replay: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Refused:
    """The service refused the request, or it exceeds a known limit. `detail` has error codes and failed batch items.

    `account`: the service refused our account (credentials, payment, a lock), not this call. The call can succeed once
    an operator has repaired the account, so it is not `permanent`; `advice` says what the operator does. `template`
    limits the trouble to the template of the message. `recipient`: the refusal concerns this recipient, not the
    content.
    """

    label: ClassVar[AnswerName] = "refused"
    reason: str
    permanent: bool
    retry_after_s: float | None = None
    detail: Detail = field(default_factory=_no_detail, repr=False)
    account: bool = False
    advice: str = ""
    template: bool = False
    recipient: bool = False


@dataclass(frozen=True, slots=True)
class Throttled:
    """The service received too many requests. `retry_after_s` is None if the service does not say how long to wait."""

    label: ClassVar[AnswerName] = "throttled"
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Unreachable:
    """Nothing was sent. The failure counts against the channel, not against the message."""

    label: ClassVar[AnswerName] = "unreachable"
    reason: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """The request was sent, but its outcome is unknown."""

    label: ClassVar[AnswerName] = "unknown"
    reason: str


@dataclass(frozen=True, slots=True)
class Absent:
    """A lookup found nothing."""


ServiceAnswer = Accepted | Refused | Throttled | Unreachable | Unknown
"""What a call that changes something returns."""
Lookup = Accepted | Absent | Refused | Throttled | Unreachable | Unknown
"""What a call that reads one thing returns."""
