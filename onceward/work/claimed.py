"""One piece of work that a worker has claimed."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

from onceward.db import Cause


class Claimed:
    """Claimed work with its lease. Only a statement with the same lease can settle it."""

    __slots__ = (
        "acknowledging",
        "after",
        "args",
        "arrival",
        "attempts",
        "began_s",
        "body",
        "bundle",
        "cancelled",
        "caused_by",
        "context",
        "crashes",
        "db",
        "follows_others",
        "host",
        "id",
        "kind",
        "lane",
        "lease",
        "max_attempts",
        "open_tx",
        "organization",
        "parted",
        "prepared",
        "succeeded",
        "tags",
        "task",
    )

    def __init__(
        self,
        lease: int,
        id: int,
        kind: str,
        task: str,
        organization: UUID | None = None,
        attempts: int = 0,
        crashes: int = 0,
        max_attempts: int | None = None,
        bundle: int | None = None,
        lane: str | None = None,
        args: Any = None,
        caused_by: int | None = None,
        tags: list[str] | None = None,
        context: dict[str, Any] | None = None,
    ) -> None:
        self.id = id
        self.kind = kind
        self.task = task
        self.organization = organization
        self.attempts = attempts
        self.crashes = crashes
        self.max_attempts = max_attempts
        self.bundle = bundle
        self.lane = lane
        self.args = args
        self.caused_by = caused_by
        self.tags = tags
        self.lease = lease
        self.context = context
        """The request id, user and tier of the request that caused the job, if a request did."""
        self.arrival = 0
        """The number of its arrival in the queue of this process, which decides whose turn it is."""
        self.after: Claimed | None = None
        """The work before it in its ordered lane, if both were claimed together."""
        self.acknowledging = False
        """Whether its handler has ended, and its success waits for the next acknowledgement."""
        self.succeeded = False
        """Whether its success is committed."""
        self.body: Any = None
        self.db: Any = None
        self.host: Any = None
        """The `Host` that runs the work, for tasks that settle their own work."""
        self.open_tx: Any = None
        self.follows_others = False
        """Whether its handler runs after others in one transaction: if it fails, it runs again alone, and only that
        counts."""
        self.parted: dict[str, Any] | None = None
        """Why the group was rolled back in which it ran before."""
        self.prepared: Any = None
        """What `Task.prepare` read from the body of a member of a batch."""
        self.cancelled = False
        """Whether an operator cancelled it while it waited for a slot: it ends without its handler."""
        self.began_s: float | None = None
        """When the attempt began, by the monotonic clock of this process."""

    @property
    def elapsed_s(self) -> float:
        """Return how long the attempt has run. The database subtracts it from its own clock, which all nodes share."""
        return 0.0 if self.began_s is None else time.monotonic() - self.began_s

    @property
    def attempt(self) -> int:
        """Return the number of this attempt, starting at 1."""
        return self.attempts + 1

    @property
    def suspect(self) -> bool:
        """Return whether two workers died while they held this work. It runs alone in its process (`Suspects`)."""
        return self.crashes > 1

    @property
    def is_blocked(self) -> bool:
        """Return whether it must not run here, because the work before it in its ordered lane has not succeeded."""
        return self.after is not None and not self.after.succeeded

    @property
    def cause(self) -> Cause:
        return Cause(self.kind, self.id)
