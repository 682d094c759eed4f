"""What a job does after a call to the payment service that was not accepted."""

from __future__ import annotations

from typing import assert_never

from onceward import Permanent, Retry, Snooze
from onceward.services import Accepted, Refused, ServiceAnswer, Throttled, Unknown, Unreachable

ACCOUNT_WAIT_S = 15 * 60
"""How long a job waits after the payment service refused our credentials."""


def again_later(outcome: ServiceAnswer) -> Exception:
    """Return the error that makes the job repeat a call under the same idempotency key."""
    match outcome:
        case Refused(reason, account=True):
            return Snooze(ACCOUNT_WAIT_S, f"the payment service refuses our credentials: {reason}")
        case Throttled(after):
            return Retry("the payment service limits our request rate", after=after)
        case Refused(reason, permanent=True):
            return Permanent(f"the payment service refuses the request: {reason}")
        case Refused(reason, retry_after_s=after):
            return Retry(reason, after=after)
        case Unreachable(reason) | Unknown(reason):
            return Retry(reason)
        case Accepted():
            return Retry("accepted, but not as expected")
        case _:
            assert_never(outcome)
