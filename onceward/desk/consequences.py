"""What a transaction would start when it commits: messages, jobs, workflows. For the page that asks before it acts."""

from __future__ import annotations

from typing import NamedTuple

from onceward.statements import read_statement
from onceward.tx import Tx

STARTED = read_statement("desk", "started_since")
LAST_ID = "select coalesce(pg_sequence_last_value('onceward.ids'), 0) from (select pg_current_xact_id()) assigned"
"""It also gives the transaction its number, so that everything it inserts has this number or a larger one."""


class Consequence(NamedTuple):
    """How many messages of a template, jobs of a task or workflows of a name."""

    kind: str
    name: str
    number: int

    @property
    def sentence(self) -> str:
        noun = {"message": "message", "job": "job", "workflow": "workflow"}.get(self.kind, self.kind)
        verb = "will be sent" if self.kind == "message" else "will run"
        return f"{self.number:,} {noun}{'' if self.number == 1 else 's'} “{_words(self.name)}” {verb}"


def _words(name: str) -> str:
    """Return the name of a template, task or workflow as words, without that of its app: `clinic.day_before`."""
    return name.rpartition(".")[2].replace("_", " ").replace("-", " ")


async def last_id(tx: Tx) -> int:
    """Return an id that is smaller than that of everything the transaction is going to start."""
    return await tx.fetchval(LAST_ID)


async def consequences_since(tx: Tx, before: int) -> list[Consequence]:
    """Return what this transaction has started since `before`."""
    return [Consequence(row["kind"], row["name"], row["count"]) for row in await tx.fetch(STARTED, before)]
