"""One piece of work that this worker holds."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from onceward.db import Cause


class Claimed:
    """Held under a lease: whoever wants to settle it must show the same one."""

    __slots__ = (
        "args",
        "attempts",
        "body",
        "bundle",
        "caused_by",
        "crashes",
        "db",
        "host",
        "id",
        "kind",
        "lane",
        "lease",
        "max_attempts",
        "open_tx",
        "organization",
        "started_at",
        "tags",
        "task",
    )

    def __init__(
        self,
        id: int,
        kind: str,
        task: str,
        organization: UUID | None,
        attempts: int,
        crashes: int,
        max_attempts: int | None,
        bundle: int | None,
        lane: str | None,
        args: Any,
        caused_by: int | None,
        tags: list[str] | None,
        lease: int,
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
        self.body: Any = None
        self.db: Any = None
        self.host: Any = None
        """The `Host` that runs it, for tasks that settle themselves."""
        self.open_tx: Any = None
        self.started_at: datetime | None = None

    @property
    def attempt(self) -> int:
        """1 on the first try."""
        return self.attempts + 1

    @property
    def suspect(self) -> bool:
        """Two workers died with it: it runs alone, so that the next one to die is its fault."""
        return self.crashes > 1

    @property
    def cause(self) -> Cause:
        return Cause(self.kind, self.id)
