"""What a job does after a call to a service that was not accepted."""

from __future__ import annotations

from typing import assert_never

from onceward import Permanent, Retry, Snooze
from onceward.services import Absent, Accepted, Lookup, Refused, Throttled, Unknown, Unreachable

AGAIN_S = 30
ACCOUNT_WAIT_S = 15 * 60
"""How long a call waits if the service refuses our account: an operator has to repair it."""


def again(outcome: Lookup) -> Exception:
    """Return what a job raises after a call that was not accepted.

    A refused account says nothing about this call, so the attempt does not count: the call is made when an operator has
    repaired the account.
    """
    match outcome:
        case Refused(reason, account=True):
            return Snooze(ACCOUNT_WAIT_S, f"the service refused our account: {reason}")
        case Refused(reason, permanent=True):
            return Permanent(f"the service refused the request: {reason}")
        case Refused(reason):
            return Retry(f"the service refused the request: {reason}")
        case Throttled(retry_after_s):
            return Snooze(retry_after_s or AGAIN_S, "the service asks for a pause")
        case Unreachable(reason) | Unknown(reason):
            return Retry(reason)
        case Absent():
            return Permanent("the service does not know it")
        case Accepted():
            raise AssertionError("the call was accepted")
        case _:
            assert_never(outcome)
