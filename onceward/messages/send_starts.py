"""Record that sends begin. Sends of the same moment share a commit; each goes on after that commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from onceward.db import Database
from onceward.work import GroupCommit

BEGIN = "select number, verdict from onceward.begin_sends($1, $2, $3, $4, $5, $6, $7)"


class BeginningSend(NamedTuple):
    """A send that is about to begin.

    `again`: the caller knows that an earlier send got no answer, and may send anyway. `owned`: by the organization's
    own account. `probes`: the message may try a refused account or template.
    """

    id: int
    lease: int
    blind: bool
    again: bool
    owned: bool
    language: str
    probes: bool


class Beginnings:
    """Asks for each send whether it may begin. The database records it before the service is called."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._sends: GroupCommit[BeginningSend, str] = GroupCommit(self._begin)

    async def begin(self, send: BeginningSend) -> str:
        """Return 'go', 'unsure', 'superseded', or why the message is not sent. See functions/begin_sends.sql."""
        return await self._sends.submit(send)

    async def _begin(self, sends: Sequence[BeginningSend]) -> Sequence[str]:
        async with self._db.acquire() as conn:
            rows = await conn.fetch(BEGIN, *zip(*sends, strict=True))
        verdicts = {row["number"]: row["verdict"] for row in rows}
        return [verdicts[number] for number in range(1, len(sends) + 1)]
