"""Tell a repetition from a mistake: a unique key that is taken says "already done" only if its row is committed.

The row of the conflict may also be one that the handler itself has inserted a moment ago, for example because new code
inserts twice.
"""

from __future__ import annotations

import asyncpg

from onceward.db import Connection
from onceward.rehearsal.relations import quoted
from onceward.statements import read_statement

Conflict = asyncpg.UniqueViolationError | asyncpg.ExclusionViolationError
CONFLICTS = (asyncpg.UniqueViolationError, asyncpg.ExclusionViolationError)
INDEX = read_statement("rehearsal", "index_of_conflict")


def table_of(conflict: Conflict) -> str:
    """Return the quoted name of the table, as `Relation.sql` has it."""
    return f"{quoted(conflict.schema_name or '')}.{quoted(conflict.table_name or '')}"


async def is_committed(outside: Connection, conflict: Conflict, *, written: int) -> bool:
    """Return whether the row that holds the key is committed, seen by a session that sees only what is committed.

    `written` is how often the handler has written to the table: the one write that failed cannot conflict with itself.
    Where row-level security hides the key from the error, more writes leave it unknown; then it counts as a mistake.
    """
    if written <= 1:
        return True
    values = _existing_key(conflict.detail or "")
    if values is None:
        return False
    index = await outside.fetchrow(INDEX, conflict.schema_name, conflict.constraint_name)
    if index is None or not index["columns"]:
        return False
    columns: list[str] = index["columns"]
    parts = [values] if len(columns) == 1 else values.split(", ")
    if len(parts) != len(columns):
        return False
    same = [
        f"{column} = ${place}::text::{type}"
        for place, (column, type) in enumerate(zip(columns, index["types"], strict=True), 1)
    ]
    where = " and ".join([*same, *([f"({index['predicate']})"] if index["predicate"] else [])])
    return bool(await outside.fetchval(f"select exists (select from {table_of(conflict)} where {where})", *parts))


def _existing_key(detail: str) -> str | None:
    """Return the values of the key that exists: `Key (a, b)=(1, x) already exists.`, in any language of the server.

    An exclusion constraint names two keys, and the second one exists: `Key (..)=(..) conflicts with existing key ...`
    """
    start, end = detail.rfind(")=("), detail.rfind(")")
    return detail[start + 3 : end] if 0 <= start < end - 2 else None
