"""How an attempt can end, and what a handler may raise to choose it.

pending ──claim──▶ processing ──▶ success
   ▲                   │  ├─────▶ failed       ends, nobody is called (a task that is not critical)
   │                   │  ├─────▶ dead_letter  ends, an operator is told, can be replayed
   └── retry, snoozed, ┘  ├─────▶ cancelled    asked to stop
       crashed            └─────▶ unknown      sent to a service without keys, and never answered (messages)
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

DeadReason = Literal[
    "max_attempts_exceeded",
    "payload_invalid",
    "permanent",
    "no_handler",
    "timeout",
    "worker_lost",
    "connection_lost",
    "not_recorded",
    "cancelled",
]


class Retry(Exception):
    """Raise to try again after `after` (seconds or timedelta; none: as the task's policy says). Counts as an attempt."""

    def __init__(self, reason: str = "", *, after: float | timedelta | None = None) -> None:
        super().__init__(reason or "asked to be tried again")
        self.after_s = after.total_seconds() if isinstance(after, timedelta) else after


class Snooze(Exception):
    """Raise to run again later without counting an attempt: nothing failed, it is only too early."""

    def __init__(self, after: float | timedelta, reason: str = "") -> None:
        super().__init__(reason or "not yet")
        self.after_s = after.total_seconds() if isinstance(after, timedelta) else float(after)


class Permanent(Exception):
    """Raise when trying again cannot help: a dead letter at once. `result` is what duplicates are answered."""

    def __init__(self, reason: str, *, result: Any = None, status: int | None = None) -> None:
        super().__init__(reason)
        self.result = result
        self.status = status


class Reply(dict[str, Any]):
    """Return from a webhook's handler to commit what it did and still answer the first delivery with another status.

    For a refusal that has effects: money that came too late is refunded, and the sender is told 400. Duplicates get
    200 with the same members, so that the sender stops.
    """

    def __init__(self, status: int, /, **members: Any) -> None:
        super().__init__(members)
        if not 200 <= status < 500:
            raise ValueError(f"status is {status}: a reply that commits is 2xx to 4xx; raise Retry for anything else")
        self.http_status = status


class PayloadInvalid(Permanent):
    """What arrived does not fit the declared model or signature."""


class Indeterminate(Exception):
    """Raise when a call without an idempotency key was sent and never answered: it must not be repeated blindly."""


class Superseded(Exception):
    """The lease was lost: somebody else has this work now, and nothing of this attempt was committed."""


class Settled(Exception):
    """The task has settled the work itself, fenced, in a commit of its own; `outcome` is for metrics."""

    def __init__(self, outcome: str) -> None:
        super().__init__(outcome)
        self.outcome = outcome


class TimedOut(Exception):
    """The handler ran into its deadline."""


class Cancelled(Exception):
    """The work was cancelled while it ran."""


@dataclass(frozen=True, slots=True)
class Succeeded:
    result: Any = None


@dataclass(frozen=True, slots=True)
class Again:
    """Back to pending, due at a time. `counted` tells a failure from a snooze."""

    due_in_s: float
    error: dict[str, Any]
    counted: bool = True


@dataclass(frozen=True, slots=True)
class Crashed:
    """The handler's database connection was lost. Back to pending, as after a crash: the third one is a dead letter.

    It is not counted at all when PostgreSQL itself was restarted meanwhile. A handler that ends its own session every time
    would otherwise run for ever.
    """

    due_in_s: float
    error: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Dead:
    """A dead letter, or `failed` for a task that is not critical."""

    reason: DeadReason
    error: dict[str, Any]
    result: Any = None


@dataclass(frozen=True, slots=True)
class Stopped:
    error: dict[str, Any]


@dataclass(frozen=True, slots=True)
class NotKnown:
    error: dict[str, Any]


Outcome = Succeeded | Again | Crashed | Dead | Stopped | NotKnown


@dataclass(frozen=True, slots=True)
class Finished:
    """What is kept of a finished job, for whoever waits for it."""

    id: int
    outcome: str
    result: Any
    error: dict[str, Any] | None
    finished_at: datetime
