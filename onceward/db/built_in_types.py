"""A connection that looks up PostgreSQL's own types once per process, not once per connection.

asyncpg does not know arrays such as uuid[] and bigint[]. It would look up each of them again on every connection,
with a query that takes the server longer than to open the connection.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, ClassVar

import asyncpg

FIRST_OTHER_TYPE = 10_000
"""PostgreSQL assigns smaller ids to its own types by hand. They are the same in every database and never change."""
NO_STATEMENT = SimpleNamespace(name="none")
"""In place of the statement that looked types up: none was sent, so asyncpg need not prepare its own statement
again."""


class LearnedConnection(asyncpg.Connection):  # pyright: ignore[reportMissingTypeArgument]
    """A connection that knows the built-in types which another connection of this process has looked up."""

    __slots__ = ()
    _built_in: ClassVar[dict[frozenset[int], Any]] = {}

    async def _introspect_types(self, typeoids: Iterable[int], timeout: float | None) -> Any:
        oids = frozenset(typeoids)
        if (known := self._built_in.get(oids)) is not None:
            return known, NO_STATEMENT
        rows, statement = await super()._introspect_types(oids, timeout)  # pyright: ignore
        if max(oids, default=0) < FIRST_OTHER_TYPE:
            self._built_in[oids] = rows
        return rows, statement
