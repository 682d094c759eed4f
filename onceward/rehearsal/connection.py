"""The connection of a rehearsal: it counts statements, refuses to end the transaction, and remembers keys."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast
from uuid import UUID

import asyncpg

from onceward.db.pool import PooledConnection
from onceward.db.statement_watch import Lasts, Watch, lasts
from onceward.outside import OUTSIDE
from onceward.rehearsal.errors import CommitRefused

MOST_KEYS = 5000
LONGEST_KEY = 200


PART = "onceward_rehearsal_"
"""How the names of the savepoints begin that stand for the transactions of a handler."""


class RehearsalWatch(Watch):
    """Looks at the statements of one rehearsal before they are sent."""

    __slots__ = ("crosses", "organization", "parts", "statements")

    def __init__(self, organization: UUID | None = None) -> None:
        super().__init__(others=False)
        self.statements = 0
        self.organization = organization
        """The organization of the work."""
        self.parts = 0
        """How many transactions of the handler are open."""
        self.crosses = False
        """Whether the handler has acted for another organization, or for all as the engine does."""

    def entered(self, role: str, organization: UUID | None) -> None:
        """Note that a transaction of the handler is open."""
        self.parts += 1
        if role != "app" or organization != self.organization:
            self.crosses = True

    def left(self) -> None:
        """Note that a transaction of the handler has ended."""
        self.parts -= 1

    def look(self, query: str) -> None:
        """Count a statement. Raise `CommitRefused` if it would end the transaction."""
        self.statements += 1
        if self.parts == 0 and not query.startswith(f"savepoint {PART}"):
            self.crosses = True
        if lasts(query) is Lasts.ENDS:
            raise CommitRefused(
                "a rehearsal must not end its transaction: use `tx.savepoint` to undo a part, and raise to undo all"
            )


class SeenKeys:
    """Values that the handler sent or read and that may be keys of rows it changed."""

    def __init__(self) -> None:
        self.integers: set[int] = set()
        self.uuids: set[UUID] = set()
        self.texts: set[str] = set()

    def add(self, values: Iterable[Any]) -> None:
        """Remember ids among the values, and in lists of them."""
        for value in values:
            match value:
                case bool() | None | float():
                    continue
                case int():
                    _keep(self.integers, value)
                case UUID():
                    _keep(self.uuids, value)
                case str() if 0 < len(value) <= LONGEST_KEY:
                    _keep(self.texts, value)
                case list() | tuple():
                    self.add(cast("list[Any]", value))
                case _:
                    continue


def _keep(known: set[Any], value: Any) -> None:
    if len(known) < MOST_KEYS:
        known.add(value)


class RehearsalConnection(PooledConnection):
    """A connection on which nothing is committed while `seen` is set."""

    __slots__ = ("rehearsed", "seen")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.seen: SeenKeys | None = None
        self.rehearsed: RehearsalWatch | None = None

    async def _execute(self, query: str, args: Any, *more: Any, **options: Any) -> Any:
        """Every statement with arguments or rows passes here."""
        answer: object = await super()._execute(query, args, *more, **options)  # pyright: ignore
        if self.seen is not None:
            self.seen.add(args)
            result = cast("Any", answer)
            rows = cast("object", result[0] if isinstance(result, tuple) else result)
            if isinstance(rows, list):
                for row in cast("list[asyncpg.Record]", rows)[:MOST_KEYS]:
                    self.seen.add(row.values())
        return answer

    def _cancel_current_command(self, *args: Any) -> None:
        """Let asyncpg open its connection for a cancellation, which is not a call of the handler."""
        token = OUTSIDE.set(None)
        try:
            super()._cancel_current_command(*args)  # pyright: ignore
        finally:
            OUTSIDE.reset(token)
