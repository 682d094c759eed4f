"""Find the rows of a table that are about a person: by an index, or in windows of a bounded number of rows.

A window is a range of the values of an index, so a row is found although it changes its place in the table meanwhile.
If an index begins with the organization, only rows of the organization are read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

import asyncpg

from onceward.db import Transaction
from onceward.statements import read_statement
from onceward.trust.person import Person

if TYPE_CHECKING:
    from onceward.trust.erase import Eraser

Kind = Literal["whole", "text", "list", "json", "body"]
"""How a column is compared: `whole` contains one name of a person; `text`, `list` (of texts), `json` and `body` (bytes
of a request) may mention people."""

OWN_ROWS = "t.organization_id is not distinct from $1::uuid"
INSTANCE = "$1::uuid is null"
"""The scope of tables that belong to no organization: they are searched only for the whole instance."""
WINDOW_ROWS = 1_000

INDEXES = read_statement("trust", "list_indexes")

CANDIDATE: Mapping[Kind, str] = {
    "whole": "lower(btrim({value}::text)) = any($2::text[])",
    "text": "exists (select from unnest($3::text[]) n where position(n in lower({value}::text)) > 0)",
    "body": "exists (select from unnest($3::text[]) n where position(lower(encode(convert_to(n, 'UTF8'), 'escape'))"
    " in lower(encode({value}, 'escape'))) > 0)",
}
TYPED = (
    "($1::uuid is null or true) and $2::text[] is not null and $3::text[] is not null and $4::text[] is not null"
    " and $5::uuid[] is not null"
)
"""Tells PostgreSQL the types of parameters that a statement may not use otherwise."""
FIRST_FREE = 6


@dataclass(frozen=True, slots=True)
class Found:
    """A row about the person: its position, the columns that matched, and values for hooks and exports."""

    row: str
    columns: tuple[str, ...]
    waits: bool
    key: Any
    names: tuple[str, ...]
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Window:
    """What was found in a window, how many rows it had, and its last row; None: nothing follows it."""

    found: list[Found]
    examined: int
    last: list[str] | None


@dataclass(frozen=True, slots=True)
class Walk:
    """The index in whose order a table is read: its columns as SQL, their types, and the condition for own rows."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    own: str = "true"

    def compared(self, sign: str, parameter: int) -> str:
        """Return the condition that compares the columns with the values of the parameters from this one on."""
        values = (f"${number}::text::{kind}" for number, kind in enumerate(self.types, start=parameter))
        return f"({', '.join(self.columns)}) {sign} ({', '.join(values)})"


def is_searched(eraser: Eraser, organization: UUID | None) -> bool:
    """Return whether the table can have rows of this scope: tables of the instance have none of an organization."""
    return eraser.scope != INSTANCE or organization is None


async def linked_rows(
    tx: Transaction,
    eraser: Eraser,
    person: Person,
    organization: UUID | None,
    *,
    lock: bool = False,
    values: bool = False,
) -> list[Found]:
    """Return the rows to which the condition `linked` of the eraser leads by an index.

    `lock` locks the candidates until the transaction ends; `values` returns whole rows.
    """
    statement = _select(eraser, organization, f"({eraser.linked})", lock=lock, values=values)
    return _matching(eraser, person, await tx.fetch(statement, *_arguments(person, organization)))


async def find_walk(tx: Transaction, eraser: Eraser, organization: UUID | None) -> Walk | None:
    """Return the order in which a table is read. None: there is no such table.

    A table without a primary key or another index with all its rows has no order, and is read at once.
    """
    if await tx.fetchval("select to_regclass($1) is null", eraser.table):
        return None
    indexes = await tx.fetch(INDEXES, eraser.table)
    if organization is not None and eraser.scope == OWN_ROWS:
        # A unique index has a value in place of no organization: coalesce(organization_id, ...).
        for begins in (str.__eq__, str.__contains__):
            for index in indexes:
                first, *columns = index["columns"]
                if columns and begins(first, "organization_id"):
                    return Walk(tuple(columns), tuple(index["types"][1:]), f"{first} = $1::uuid")
    for index in indexes:
        if index["complete"]:
            return Walk(tuple(index["columns"]), tuple(index["types"]))
    return Walk((), ())


async def window(
    tx: Transaction,
    eraser: Eraser,
    person: Person,
    organization: UUID | None,
    walk: Walk,
    after: Sequence[str] | None,
    *,
    lock: bool = False,
    values: bool = False,
) -> Window:
    """Return what is about the person in the next rows. PostgreSQL finds candidates, `Person` decides."""
    candidate = " or ".join(_candidate(eraser, column, kind) for column, kind in eraser.columns.items())
    if not walk.columns:
        statement = _select(eraser, organization, f"({candidate})", lock=lock, values=values)
        rows = await tx.fetch(statement, *_arguments(person, organization))
        return Window(_matching(eraser, person, rows), WINDOW_ROWS, None)
    begin = "true" if after is None else walk.compared(">", FIRST_FREE)
    texts = ", ".join(f"({column})::text" for column in walk.columns)
    arguments = [*_arguments(person, organization), *(after or ())]
    order = ", ".join(walk.columns)
    end = await tx.fetchrow(
        f"select n, last from (select row_number() over (order by {order}) as n, array[{texts}] as last"
        f" from {eraser.table} t where {walk.own} and {begin} and {TYPED} order by {order} limit {WINDOW_ROWS}) w"
        " order by n desc limit 1",
        *arguments,
    )
    if end is None:
        return Window([], 0, None)
    inside = f"{walk.own} and {begin} and {walk.compared('<=', len(arguments) + 1)}"
    statement = _select(eraser, organization, f"{inside} and ({candidate})", lock=lock, values=values)
    rows = await tx.fetch(statement, *arguments, *end["last"])
    return Window(_matching(eraser, person, rows), end["n"], list(end["last"]) if end["n"] == WINDOW_ROWS else None)


def _arguments(person: Person, organization: UUID | None) -> list[Any]:
    return [organization, person.forms, person.needles, person.spellings, person.uuids]


def _select(eraser: Eraser, organization: UUID | None, condition: str, *, lock: bool, values: bool) -> str:
    columns = ", ".join(f"{_value(eraser, column, kind)} as {column}" for column, kind in eraser.columns.items())
    names = "".join(f", t.{name}::text" for name in eraser.names)
    scope = eraser.scope
    if scope == OWN_ROWS:  # PostgreSQL has no index for `is not distinct from`
        scope = "t.organization_id is null" if organization is None else "t.organization_id = $1::uuid"
    return (
        f"select t.ctid::text as found_row, {eraser.waits} as found_waits, {eraser.key} as found_key,"
        f" array_remove(array[null::text{names}], null) as found_names, {'to_jsonb(t)' if values else 'null::jsonb'}"
        f" as found_values, {columns} from {eraser.table} t where {scope} and {condition} and {TYPED}"
        + (" for update of t" if lock else "")
    )


def _matching(eraser: Eraser, person: Person, rows: Sequence[asyncpg.Record]) -> list[Found]:
    found: list[Found] = []
    for row in rows:
        matched = tuple(name for name, kind in eraser.columns.items() if _matches(person, kind, row[name]))
        if matched:
            found.append(
                Found(
                    row["found_row"],
                    matched,
                    row["found_waits"],
                    row["found_key"],
                    tuple(row["found_names"]),
                    row["found_values"] or {},
                )
            )
    return found


def _value(eraser: Eraser, column: str, kind: Kind) -> str:
    value = eraser.values.get(column, f"t.{column}")
    return value if kind in ("body", "list") else f"{value}::text"


def _candidate(eraser: Eraser, column: str, kind: Kind) -> str:
    value = eraser.values.get(column, f"t.{column}")
    return CANDIDATE[kind if kind in CANDIDATE else "text"].format(value=value)


def _matches(person: Person, kind: Kind, value: Any) -> bool:
    match kind:
        case "whole":
            return person.is_named(value)
        case "text":
            return person.is_mentioned(value)
        case "list":
            return person.is_in_list(value)
        case "json":
            return value is not None and person.is_in_json(json.loads(value))
        case "body":
            return person.is_in_body(value)
