"""The job object that a handler receives."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from onceward.work.claimed import Claimed
from onceward.work.gate import gate
from onceward.work.outcomes import Superseded
from onceward.work.statements import HOLD_LEASE, SAVE_CHECKPOINT


class Job:
    """A running job. `key("refund")` is the idempotency key for a call to an outside service."""

    __slots__ = ("_work",)

    def __init__(self, work: Claimed) -> None:
        self._work = work

    @property
    def id(self) -> int:
        return self._work.id

    @property
    def task(self) -> str:
        return self._work.task

    @property
    def attempt(self) -> int:
        """Return the number of this attempt, starting at 1."""
        return self._work.attempts + 1

    @property
    def organization(self) -> UUID | None:
        return self._work.organization

    @property
    def caused_by(self) -> int | None:
        return self._work.caused_by

    @property
    def tags(self) -> list[str]:
        return self._work.tags or []

    @property
    def args(self) -> dict[str, Any]:
        """Return the arguments as stored. A batch handler reads them here."""
        return self._work.args

    def key(self, action: str) -> str:
        """Return `job:<id>:<action>`. The key is the same on every attempt and after a replay."""
        return self._work.cause.key(action)

    async def checkpoint(self, cursor: Any) -> None:
        """Save how far a long job has come. Raises `Superseded` if another worker holds the job now."""
        if await self._work.db.fetchval(SAVE_CHECKPOINT, self.id, self._work.lease, cursor) is None:
            raise Superseded

    async def cursor(self, default: Any = None) -> Any:
        """Return the last saved checkpoint of this job, or `default` if there is none."""
        row = await self._work.db.fetchrow("select cursor from onceward.checkpoints where work_id = $1", self.id)
        return default if row is None else row["cursor"]

    @asynccontextmanager
    async def transaction(self, *, fenced: bool = False) -> AsyncGenerator[Any]:
        """Open a transaction (a `Tx`) in a job that calls outside services and must not hold one during the call.

        Its commit does not end the job. A second attempt may write the same rows again, so the writes must be
        idempotent. With `fenced`, the commit happens only if this worker still holds the job. Otherwise the transaction
        is rolled back and `Superseded` is raised, which ends this attempt: another worker runs the job now.
        """
        async with self._work.db.acquire() as conn, self._work.open_tx(conn, self._work) as tx:
            yield tx
            if fenced:
                gate("fenced-before-commit")
                await tx.hand_over("")  # as the engine: the transaction may act for another organization than the job
                if await tx.fetchval(HOLD_LEASE, self.id, self._work.lease) is None:
                    raise Superseded
        if fenced:
            gate("fenced-after-commit")
