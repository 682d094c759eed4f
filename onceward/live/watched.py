"""The watched tables, and the text form of key values in the feed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any
from uuid import UUID

from onceward.db import Connection
from onceward.live.errors import NotWatched
from onceward.statements import read_statement

LOAD = read_statement("live", "load_watched")


@dataclass(frozen=True, slots=True)
class Table:
    """A watched table."""

    oid: int
    name: str
    keys: Mapping[str, str]

    def condition(self, key: str, value: Any) -> tuple[str, str | None]:
        """Return the key and the text form of the value in the feed. Raises `NotWatched` for an unknown key."""
        kind = self.keys.get(key)
        if kind is None:
            known = ", ".join(sorted(self.keys)) or "none"
            raise NotWatched(
                f"{self.name} is not watched by {key} (its keys: {known}); "
                f"add `select onceward.watch('{self.name}', key => '{key}')` to a migration"
            )
        return key, _text(self.name, key, kind, value)


def _text(table: str, key: str, kind: str, value: Any) -> str | None:
    if value is None:
        return None
    try:
        match kind:
            case "uuid":
                return str(value if isinstance(value, UUID) else UUID(str(value)))
            case "int":
                return str(int(value))
            case "bool":
                if not isinstance(value, bool):
                    raise ValueError("not a boolean")
                return "true" if value else "false"
            case _:
                return str(value.value) if isinstance(value, Enum) else str(value)
    except (ValueError, TypeError) as error:
        raise NotWatched(f"{table}.{key} has type {kind}, but the value is {value!r}: {error}") from None


class Tables:
    """A cache of the watched tables, loaded at connection and when the feed contains an unknown table."""

    def __init__(self) -> None:
        self._by_name: dict[str, Table] = {}
        self._names: dict[int, str] = {}
        self._roots: dict[str, str] = {}

    async def load(self, conn: Connection) -> None:
        rows = await conn.fetch(LOAD)
        self._by_name = {
            row["name"]: Table(row["oid"], row["name"], dict(zip(row["keys"], row["types"], strict=True)))
            for row in rows
        }
        self._names = {table.oid: name for name, table in self._by_name.items()}
        self._roots = {leaf: row["name"] for row in rows for leaf in row["partitions"]}

    def get(self, name: str) -> Table:
        """Return a table by `schema.table`. A name without a schema means the schema `public`."""
        table = self._by_name.get(name if "." in name else f"public.{name}")
        if table is None:
            raise NotWatched(
                f"table {name} is not in the feed; add `select onceward.watch('{name}')` to a migration, "
                "with `key => 'column'` for the column that queries filter by"
            )
        return table

    def knows(self, oid: int) -> bool:
        return oid in self._names

    def root(self, name: str) -> str:
        """Return the watched table that a partition belongs to, or the name itself if it is not a partition."""
        return self._roots.get(name, name)
