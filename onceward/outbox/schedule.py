"""The retry schedule of deliveries: a few quick retries, then longer waits for more than a day."""

from __future__ import annotations

import random
from collections.abc import Sequence

from onceward.work import RetryPolicy

QUICK_WAITS_S = (2.0, 4.0, 5.0)
LONG_WAITS_S = (300.0, 1800.0, 7200.0, 18000.0, 36000.0, 36000.0)
WAITS_S = QUICK_WAITS_S + LONG_WAITS_S
"""Ten attempts in about 28 hours."""

QUICK_S = 10.0
"""A retry after at most this wait is a quick one."""
MOST_WAITS = 50
LONGEST_WAIT_S = 7 * 86400.0
LONGEST_RETRY_AFTER_S = 86400.0
JITTER = 0.1
JITTER_FROM_S = 60.0

POLICY = RetryPolicy(max_attempts=MOST_WAITS + 2, waits_s=WAITS_S)
"""For failures of our own code. Failures of an endpoint follow the schedule of that endpoint."""


def wait_s(waits: Sequence[float], failures: int) -> float | None:
    """Return the wait after the n-th failure, or None if that was the last attempt.

    Long waits get a random jitter, so that deliveries that failed together are not retried together.
    """
    if failures > len(waits):
        return None
    wait = waits[failures - 1]
    return wait if wait < JITTER_FROM_S else wait * random.uniform(1 - JITTER, 1 + JITTER)


def quick_tries(waits: Sequence[float]) -> int:
    """Return the number of failed attempts after which a delivery counts as a failure of its endpoint."""
    tries = 1
    for wait in waits:
        if wait > QUICK_S:
            break
        tries += 1
    return tries
