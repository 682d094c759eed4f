"""Find the rows that the open transaction has written, without triggers: by counters, `xmin` and `xmax`.

The counters of the session say which tables were written to. A row version of the transaction has its id in `xmin`,
which it sees itself. The version before is still what everybody else sees, so a second session reads it by its key; a
deleted row has the id in `xmax` there. Small tables are read whole. In large ones the last pages, the keys that the
handler has used and the newest keys find the rows; the counters say whether some are missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import asyncpg

from onceward.db import Connection
from onceward.rehearsal.connection import SeenKeys
from onceward.rehearsal.effects import RowChange, Verb
from onceward.rehearsal.relations import Relation, quoted
from onceward.statements import read_statement

LOCKS = read_statement("rehearsal", "held_locks")
CHANGED = read_statement("rehearsal", "changed_relations")
TOP = "select pg_current_xact_id()::text::bigint"
NEXT = "select pg_current_xact_id()::text::bigint"
"""Outside: an id that is given now is larger than those of all savepoints of the rehearsal."""
MOST_XIDS = 100_000

OF_WORK = frozenset(["onceward.work", "onceward.webhook_events"])
NO_ORGANIZATION = "00000000-0000-0000-0000-000000000000"
SMALL = 1 << 20
"""A table up to this size is read whole: 128 pages."""
NEWEST = 200
LAST_PAGES = 64
PAGE = 8192


@dataclass(frozen=True, slots=True)
class WrittenRow:
    """A row before and after, with all its columns. None: it did not exist, or no longer exists."""

    table: str
    key: Mapping[str, Any]
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None

    @property
    def verb(self) -> Verb:
        return "insert" if self.before is None else "delete" if self.after is None else "update"

    def change(self) -> RowChange | None:
        """Return the columns that change. None: an update has set every column to the value that it had."""
        before, after = self.before or {}, self.after or {}
        if self.verb == "insert":
            return RowChange(self.table, "insert", self.key, {}, {n: v for n, v in after.items() if v is not None})
        if self.verb == "delete":
            return RowChange(self.table, "delete", self.key, {n: v for n, v in before.items() if v is not None})
        names = [name for name in after if before.get(name) != after[name]]
        if not names:
            return None
        return RowChange(
            self.table, "update", self.key, {n: before.get(n) for n in names}, {n: after[n] for n in names}
        )


@dataclass(frozen=True, slots=True)
class Written:
    """All rows that one transaction has written, and how many were counted and not found."""

    rows: list[WrittenRow]
    unseen: dict[str, int]
    locked: int
    locks: tuple[str, ...] = ()
    """Tables in which rows are locked, or which are locked whole."""

    def without_work(self, id: int) -> Written:
        """Return the rows without those that say that the work itself runs."""
        rows = [row for row in self.rows if row.table not in OF_WORK or id not in row.key.values()]
        return Written(rows, self.unseen, self.locked, self.locks)

    def is_of_others(self, organization: object) -> bool:
        """Return whether a row belongs to another organization."""
        owners = {(row.after or row.before or {}).get("organization_id") for row in self.rows}
        return not owners <= {None, NO_ORGANIZATION, None if organization is None else str(organization)}

    def generated(self) -> frozenset[str]:
        """Return the keys of new rows, as text."""
        return frozenset(str(value).lower() for row in self.rows if row.before is None for value in row.key.values())


@dataclass(frozen=True, slots=True)
class _Counts:
    inserted: int
    updated: int
    deleted: int
    size: int


class RowRecorder:
    """Finds what the transaction of `inside` has written. `outside` is a session that sees what is committed."""

    def __init__(
        self, inside: Connection, outside: Connection, relations: Mapping[int, Relation], *, scan_bytes: int
    ) -> None:
        self._inside = inside
        self._outside = outside
        self._relations = relations
        self._oids = list(relations)
        self._scan_bytes = scan_bytes
        self._base: dict[int, _Counts] = {}

    async def begin(self) -> datetime:
        """Read the counters, which may contain what ended a moment ago. Return the time."""
        self._base = await self._counts()
        return await self._inside.fetchval("select onceward.now()")

    async def writes_to(self, sql: str) -> int:
        """Return how often the transaction has written to a table since `begin`. What it has undone counts too."""
        counted = await self._counts()
        oid = next((oid for oid in counted if self._relations[oid].sql == sql), None)
        if oid is None:
            return 0
        now, base = counted[oid], self._base.get(oid, _Counts(0, 0, 0, 0))
        return now.inserted + now.updated - base.inserted - base.updated

    async def written(self, seen: SeenKeys) -> Written:
        """Return the rows that were written since `begin`. The session must be able to read every table."""
        counted = await self._counts()
        changed = {oid: one for oid, one in counted.items() if self._differs(oid, one)}
        rows: list[WrittenRow] = []
        unseen: dict[str, int] = {}
        locked = 0
        locks = await self._locks()
        if not changed:
            return Written(rows, unseen, locked, locks)
        first, end = await self._inside.fetchval(TOP), await self._outside.fetchval(NEXT)
        xids = {number % 2**32: str(number) for number in range(first, min(end, first + MOST_XIDS))}
        for oid, counts in changed.items():
            relation, base = self._relations[oid], self._base.get(oid, _Counts(0, 0, 0, 0))
            inserted, updated = counts.inserted - base.inserted, counts.updated - base.updated
            deleted = counts.deleted - base.deleted
            search = _Search(relation, xids, seen, counts.size, self._scan_bytes)
            new, missing = await search.find(self._inside, "xmin", inserted + updated)
            try:
                old, missing_old, only_locked = await self._before(search, new, updated=updated, deleted=deleted)
            except asyncpg.LockNotAvailableError:  # the handler has locked the whole table
                old, missing_old, only_locked = {}, updated + deleted, 0
            rows += _paired(relation, new, old)
            locked += only_locked
            if missing + missing_old:
                unseen[relation.name] = missing + missing_old
        return Written(rows, unseen, locked, locks)

    async def _locks(self) -> tuple[str, ...]:
        """Return the tables of the user's apps that the transaction locks besides what it writes."""
        held = [(self._relations.get(row["oid"]), row["whole"]) for row in await self._inside.fetch(LOCKS)]
        named = {f"all of {one.name}" if whole else f"rows of {one.name}" for one, whole in held if one is not None}
        return tuple(sorted(each for each in named if " onceward." not in each or each.startswith("all")))

    async def _counts(self) -> dict[int, _Counts]:
        rows = await self._inside.fetch(CHANGED, self._oids)
        return {row["oid"]: _Counts(row["inserted"], row["updated"], row["deleted"], row["size"]) for row in rows}

    def _differs(self, oid: int, counts: _Counts) -> bool:
        base = self._base.get(oid, _Counts(0, 0, 0, 0))
        return (counts.inserted, counts.updated, counts.deleted) != (base.inserted, base.updated, base.deleted)

    async def _before(
        self, search: _Search, new: Mapping[str, Any], *, updated: int, deleted: int
    ) -> tuple[dict[str, Any], int, int]:
        """Return the old versions of rows by their place, how many are missing, and how many were only locked."""
        old: dict[str, Any] = {}
        if updated and search.relation.key:
            old = await search.by_key(self._outside, list(new.values()))
        if not deleted and (search.relation.key or not updated):
            return old, 0, 0
        found, missing = await search.find(self._outside, "xmax", updated + deleted, also=new.values())
        still_here = await search.visible(self._inside, list(found))
        gone = [at for at in found if at not in still_here]
        # What another session has deleted meanwhile is gone for everybody. What we have deleted is gone for us alone.
        ours = await search.visible(self._outside, gone)
        old |= {at: found[at] for at in ours}
        return old, missing, len(still_here)


class _Search:
    """Finds row versions of one table by the id of the transaction that wrote them."""

    def __init__(self, relation: Relation, xids: Mapping[int, str], seen: SeenKeys, size: int, scan_bytes: int) -> None:
        self.relation = relation
        self._xids = xids
        self._seen = seen
        self._size = size
        self._scan_bytes = scan_bytes

    async def find(
        self, conn: Connection, column: str, expected: int, *, also: Iterable[Mapping[str, Any]] = ()
    ) -> tuple[dict[str, Any], int]:
        """Return rows that the ids have written, by their place, and how many of `expected` are missing."""
        if expected == 0:
            return {}, 0
        table = self.relation.sql
        by_id = "{row}.{column} = any($1::xid[])"
        values: list[Any] = [list(self._xids)]
        if column == "xmin":
            # Ids of savepoints lie between those of others. A row that we see is ours if its transaction still runs.
            by_id += " and pg_xact_status(($2::jsonb ->> {row}.{column}::text)::xid8) = 'in progress'"
            values.append({str(number): full for number, full in self._xids.items()})
        mine = by_id.format(row="t", column=column)
        everything = f"select t.ctid::text as at, to_jsonb(t) as row from {table} t where {mine}"
        if self._size <= SMALL:
            return _by_place(await conn.fetch(everything, *values)), 0
        found: dict[str, Any] = {}
        for place, keys in self._likely(by_id.replace("{column}", column), f"${len(values) + 1}", also):
            found |= _by_place(await conn.fetch(f"{everything} and {place}", *values, *keys))
            if len(found) >= expected:
                return found, 0
        if self._size <= self._scan_bytes:
            return _by_place(await conn.fetch(everything, *values)), 0
        return found, expected - len(found)

    def _likely(self, by_id: str, next: str, also: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, list[Any]]]:
        """Yield conditions that find most rows through an index or in few pages, each with its parameters."""
        table = self.relation.sql
        yield f"t.ctid >= '({max(0, self._size // PAGE - LAST_PAGES)},0)'::tid", []
        if not self.relation.key:
            return
        if (kind := self.relation.first_key) is not None:
            first = self.relation.key[0]
            known = f"k.{quoted(first)} = any({next}::{self.relation.key_types[0]}[])"
            keys = [*getattr(self._seen, kind), *(row[first] for row in also)]
            yield f"t.ctid = any(array(select k.ctid from {table} k where {known} and {by_id.format(row='k')}))", [keys]
        order = ", ".join(f"n.{quoted(name)} desc" for name in self.relation.key)
        newest = f"select n.ctid, n.xmin, n.xmax from {table} n order by {order} limit {NEWEST}"
        yield f"t.ctid = any(array(select o.ctid from ({newest}) o where {by_id.format(row='o')}))", []

    async def by_key(self, conn: Connection, rows: list[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the versions that everybody else sees of the rows with these keys."""
        key = list(zip(self.relation.key, self.relation.key_types, strict=True))
        columns = ", ".join(f"{quoted(name)} {type}" for name, type in key)
        same = " and ".join(f"t.{quoted(name)} = k.{quoted(name)}" for name, _ in key)
        keys = [{name: row[name] for name, _ in key} for row in rows]
        return _by_place(
            await conn.fetch(
                f"select t.ctid::text as at, to_jsonb(t) as row from jsonb_to_recordset($1::jsonb) as k ({columns})"
                f" join {self.relation.sql} t on {same}",
                keys,
            )
        )

    async def visible(self, conn: Connection, places: list[str]) -> set[str]:
        """Return which of these row versions the transaction itself still sees: it has locked them and no more."""
        query = f"select t.ctid::text as at from {self.relation.sql} t where t.ctid = any($1::text[]::tid[])"
        return {row["at"] for row in await conn.fetch(query, places)}


def _by_place(rows: Iterable[Any]) -> dict[str, Any]:
    return {row["at"]: row["row"] for row in rows}


def _paired(relation: Relation, new: Mapping[str, Any], old: Mapping[str, Any]) -> list[WrittenRow]:
    """Return the rows with their versions before and after. Without a key, an update is a delete and an insert."""

    def key_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(str(row[name]) for name in relation.key)

    before = {key_of(row): row for row in old.values()} if relation.key else {}
    rows: list[WrittenRow] = []
    for row in new.values():
        known = before.pop(key_of(row), None) if relation.key else None
        rows.append(WrittenRow(relation.name, {name: row[name] for name in relation.key}, known, row))
    left = before.values() if relation.key else old.values()
    rows += [WrittenRow(relation.name, {name: row[name] for name in relation.key}, row, None) for row in left]
    return rows
