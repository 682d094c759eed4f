"""Record that sends begin. Sends of the same moment share a commit; each goes on after that commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from onceward.db import Database
from onceward.statements import read_statement
from onceward.work import GroupCommit

BEGIN = read_statement("messages", "begin_sends")


class BeginningSend(NamedTuple):
    """A send that is about to begin. `again`: the caller knows that an earlier send got no answer, and may send
    anyway."""

    id: int
    lease: int
    blind: bool
    again: bool


class Beginnings:
    """Asks for each send whether it may begin. The database records it before the service is called."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._sends: GroupCommit[BeginningSend, str] = GroupCommit(self._begin)

    async def begin(self, send: BeginningSend) -> str:
        """Return 'go', 'unsure', 'superseded', or why the message is not sent. See sql/begin_sends.sql."""
        return await self._sends.submit(send)

    async def _begin(self, sends: Sequence[BeginningSend]) -> Sequence[str]:
        async with self._db.acquire() as conn:
            rows = await conn.fetch(BEGIN, *zip(*sends, strict=True))
        verdicts = {row["number"]: row["verdict"] for row in rows}
        return [verdicts[number] for number in range(1, len(sends) + 1)]
