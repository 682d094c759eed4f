"""Retry policies. `max_attempts` includes the first attempt; a wait lies between two attempts."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from onceward.durations import Duration, in_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """A list of waits, or exponential backoff with jitter. After the end of a list its last wait is repeated."""

    max_attempts: int
    waits_s: tuple[float, ...] = ()
    first_s: float = 2.0
    factor: float = 2.0
    max_wait_s: float = 3600.0
    jitter: float = 0.2
    default_of: str = ""
    """The kind of work that this is the default policy of; the settings may change its `max_attempts`."""

    def __post_init__(self) -> None:
        if not 1 <= self.max_attempts <= 1000:
            raise ValueError(f"max_attempts must be between 1 and 1000, not {self.max_attempts}")
        if any(wait < 0 for wait in self.waits_s):
            raise ValueError(f"waits_s must not be negative: {self.waits_s}")
        if not 0 <= self.jitter < 1:
            raise ValueError(f"jitter must be at least 0 and less than 1, not {self.jitter}")

    def wait_s(self, failures: int) -> float:
        """Return how long to wait after the n-th failure (1 is the first)."""
        if self.waits_s:
            return self.waits_s[min(failures, len(self.waits_s)) - 1]
        wait = min(self.max_wait_s, self.first_s * self.factor ** min(failures - 1, 60))
        return wait * (1 + random.uniform(-self.jitter, self.jitter))

    def exhausted(self, failures: int, most: int | None = None) -> bool:
        """Return whether no attempt is left after the n-th failure. `most` overrides the task's number of attempts."""
        return failures >= (self.max_attempts if most is None else most)


def waits(*durations: Duration, max_attempts: int | None = None) -> RetryPolicy:
    """Return a policy with these waits: `waits(1, 2)` makes three attempts, one and two seconds apart."""
    number = len(durations) + 1 if max_attempts is None else max_attempts
    return RetryPolicy(max_attempts=number, waits_s=tuple(in_seconds(each) for each in durations))


EVENTS = replace(waits(2, 5, 15, 60), default_of="event")
"""Events: five attempts within a minute and a half, then a dead letter."""

JOBS = RetryPolicy(default_of="job", max_attempts=12, first_s=15, factor=2.35, max_wait_s=6 * 3600)
"""Jobs: twelve attempts over about a day."""


RetryOption = RetryPolicy | Sequence[Duration]
"""The `retry` option of a decorator: a policy, or the waits between attempts."""


def as_policy(given: RetryOption | None, max_attempts: int | None, default: RetryPolicy) -> RetryPolicy:
    """Return the policy for the `retry` and `max_attempts` options of a decorator."""
    if isinstance(given, RetryPolicy):
        return given if max_attempts is None else replace(given, max_attempts=max_attempts, default_of="")
    if given is not None:
        return waits(*given, max_attempts=max_attempts)
    if max_attempts is None:
        return default
    return replace(default, max_attempts=max_attempts, default_of="")
