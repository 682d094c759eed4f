"""The tables of the database, as a rehearsal needs them: their names, and how a row is found by its key."""

from __future__ import annotations

from dataclasses import dataclass

from onceward.db import Connection
from onceward.statements import read_statement

RELATIONS = read_statement("rehearsal", "relations")


@dataclass(frozen=True, slots=True)
class Relation:
    """One table. A partition has the name of its partitioned table."""

    oid: int
    name: str
    sql: str
    """The quoted name of the table itself."""
    key: tuple[str, ...]
    key_types: tuple[str, ...]

    @property
    def first_key(self) -> str | None:
        """Return which of the keys that a handler has seen can find a row: `integers`, `uuids` or `texts`."""
        match self.key_types[0].split("(")[0] if self.key_types else None:
            case "bigint" | "integer" | "smallint":
                return "integers"
            case "uuid":
                return "uuids"
            case "text" | "character varying":
                return "texts"
            case _:
                return None


def quoted(name: str) -> str:
    """Return a name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


async def read_relations(conn: Connection) -> dict[int, Relation]:
    """Return all tables by their oid."""
    return {
        row["oid"]: Relation(
            row["oid"],
            f"{row['schema']}.{row['shown']}",
            f"{quoted(row['schema'])}.{quoted(row['name'])}",
            tuple(row["key"] or ()),
            tuple(row["key_types"] or ()),
        )
        for row in await conn.fetch(RELATIONS)
    }
