"""How work ended, for the hooks that an app declares with `on_end`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self
from uuid import UUID

EndOutcome = Literal["success", "failed", "dead_letter", "cancelled", "discarded", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnd:
    """How a job ended. A dead letter that is replayed or discarded later ends again."""

    id: int
    task: str
    arguments: Mapping[str, Any] = field(repr=False)
    """The arguments as they were stored."""
    outcome: EndOutcome
    reason: str | None
    """Why it is a dead letter or failed: timeout, worker_lost, permanent, max_attempts_exceeded, ..."""
    error: str | None = field(repr=False)
    """The message of the last error."""
    attempts: int
    """The number of the attempt with which it ended; for work that SQL ended, of the attempt that was not made."""
    result: Any = field(repr=False)
    """What the job returned, as it was stored."""
    organization: UUID | None

    @classmethod
    def load(cls, stored: Mapping[str, Any]) -> Self:
        """Return the end that `onceward.work_end` described."""
        values: dict[str, Any] = dict(stored)
        if values["organization"] is not None:
            values["organization"] = UUID(values["organization"])
        return cls(**values)
