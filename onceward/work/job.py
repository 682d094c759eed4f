"""What a job's handler sees of the job."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from onceward.work.claimed import Claimed
from onceward.work.outcomes import Superseded

SAVE = """
insert into onceward.checkpoints as c (work_id, organization_id, cursor)
select w.id, w.organization_id, $3 from onceward.work w where w.id = $1 and w.lease = $2
on conflict (work_id) do update set cursor = excluded.cursor, saved_at = clock_timestamp()
returning work_id
"""


class Job:
    """One job, being run. `key("refund")` is the idempotency key for a call to the outside."""

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
        """1 on the first try."""
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
        """The arguments as stored; a batch handler reads them here."""
        return self._work.args

    def key(self, action: str) -> str:
        """`job:<id>:<action>`: the same on every attempt and after a replay."""
        return self._work.cause.key(action)

    async def checkpoint(self, cursor: Any) -> None:
        """Remember how far a long job has come. Raises `Superseded` when the job is somebody else's by now."""
        if await self._work.db.fetchval(SAVE, self.id, self._work.lease, cursor) is None:
            raise Superseded

    async def cursor(self, default: Any = None) -> Any:
        """Where an earlier attempt of this job came to; `default` on the first."""
        row = await self._work.db.fetchrow("select cursor from onceward.checkpoints where work_id = $1", self.id)
        return default if row is None else row["cursor"]

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Any]:
        """A transaction of this job (a `Tx`), for a job that calls the outside and must not hold one meanwhile.

        It is not the commit that ends the job: what is written here must bear being written by a second attempt.
        """
        async with self._work.db.acquire() as conn:
            tx = self._work.open_tx(conn, self._work)
            await tx.open()
            try:
                yield tx
            except BaseException:
                await asyncio.shield(tx.rollback())
                raise
            await tx.commit()
