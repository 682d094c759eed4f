"""When to try again. `attempts` counts tries including the first; waits lie between them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """A list of waits, or an exponential with jitter. The last wait of a list is used for whatever comes after it."""

    attempts: int
    waits_s: tuple[float, ...] = ()
    first_s: float = 2.0
    factor: float = 2.0
    most_s: float = 3600.0
    jitter: float = 0.2
    default_of: str = ""
    """The kind of work that this is the default policy of; the settings may change its `attempts`."""

    def __post_init__(self) -> None:
        if not 1 <= self.attempts <= 1000:
            raise ValueError(f"attempts must lie between 1 and 1000, not {self.attempts}")
        if any(wait < 0 for wait in self.waits_s):
            raise ValueError(f"waits_s must not be negative: {self.waits_s}")
        if not 0 <= self.jitter < 1:
            raise ValueError(f"jitter must lie between 0 and 1, not {self.jitter}")

    def wait_s(self, failures: int) -> float:
        """How long to wait after the n-th failure (1 = the first)."""
        if self.waits_s:
            return self.waits_s[min(failures, len(self.waits_s)) - 1]
        wait = min(self.most_s, self.first_s * self.factor ** min(failures - 1, 60))
        return wait * (1 + random.uniform(-self.jitter, self.jitter))

    def exhausted(self, failures: int, most: int | None = None) -> bool:
        """Whether the n-th failure was the last that is allowed; `most` overrides the task's own number."""
        return failures >= (self.attempts if most is None else most)


def waits(*seconds: float, attempts: int | None = None) -> RetryPolicy:
    """`waits(1, 2)`: three tries, one and two seconds apart."""
    return RetryPolicy(attempts=attempts or len(seconds) + 1, waits_s=tuple(seconds))


EVENTS = replace(waits(2, 5, 15, 60), default_of="event")
"""Events: five tries within a minute and a half, then an operator is told."""

JOBS = RetryPolicy(default_of="job", attempts=12, first_s=15, factor=2.35, most_s=6 * 3600)
"""Jobs: twelve tries spread over about a day."""


def as_policy(given: RetryPolicy | Sequence[float] | None, attempts: int | None, default: RetryPolicy) -> RetryPolicy:
    """What a decorator was given, as a policy."""
    if isinstance(given, RetryPolicy):
        return given
    if given is not None:
        return waits(*given, attempts=attempts)
    if attempts is None:
        return default
    return replace(default, attempts=attempts, default_of="")
