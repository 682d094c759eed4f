"""Find a person's data in one organization and remove it.

Each package lists in `ERASERS` of its module `erasers` which columns may contain personal data and how they are erased.
`UNSEARCHED` says for every other column why it contains none. All erasers run in one transaction, as the engine. The
same transaction writes an audit entry with the actor, the time, the number of rows, and the references as hashes only.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal
from uuid import UUID

from onceward.db import Database, Transaction
from onceward.errors import OncewardError
from onceward.statements import read_statement
from onceward.trust import audit
from onceward.trust.identity import Identity
from onceward.trust.person import BadReference, Person

__all__ = ["BadReference", "Eraser", "ErasureReport", "Found", "Person", "Searched", "erase", "find"]

Kind = Literal["whole", "text", "list", "json", "body"]
"""How a column is compared: `whole` contains one name of a person; `text`, `list` (of texts), `json` and `body` (bytes
of a request) may mention people."""

OWN_ROWS = "t.organization_id is not distinct from $1::uuid"
INSTANCE = "$1::uuid is null"
"""The scope of tables that belong to no organization: they are searched only for the whole instance."""

RECORD = read_statement("trust", "record_erasure")
FINISH = read_statement("trust", "finish_erasures")

CANDIDATE: Mapping[Kind, str] = {
    "whole": "lower(btrim({value}::text)) = any($2::text[])",
    "text": "exists (select from unnest($3::text[]) n where position(n in lower({value}::text)) > 0)",
    "body": "exists (select from unnest($3::text[]) n where position(lower(encode(convert_to(n, 'UTF8'), 'escape'))"
    " in lower(encode({value}, 'escape'))) > 0)",
}


class DryRun(OncewardError):
    """Rolls back the transaction of a dry run."""


@dataclass(frozen=True, slots=True)
class Found:
    """A row about the person: its position, the columns that matched, and values for hooks and exports."""

    row: str
    columns: tuple[str, ...]
    waits: bool
    key: Any
    names: tuple[str, ...]
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])


EraseRows = Callable[[Transaction, Person, Sequence[Found], UUID | None], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Eraser:
    """One table: which columns may contain a person, and how the rows are erased.

    `blank` gives for each column the SQL of its new value. It is applied to the columns that matched, or with
    `together` to all columns of a found row. In that SQL, `t` is the row and `m.mark` the text that replaces a name.
    Instead of `blank`, `delete` removes the row, `erase` is a function of its own, and `kept` is the reason to change
    nothing. `waits` is SQL that is true while unfinished work needs the row: such a row is reported and not changed.
    """

    name: str
    table: str
    columns: Mapping[str, Kind]
    values: Mapping[str, str] = field(default_factory=dict[str, str])
    """SQL that reads a column, where its content is not in the column itself."""
    blank: Mapping[str, str] = field(default_factory=dict[str, str])
    together: bool = False
    delete: bool = False
    erase: EraseRows | None = None
    kept: str | None = None
    then: EraseRows | None = None
    scope: str = OWN_ROWS
    waits: str = "false"
    key: str = "null::bigint"
    names: tuple[str, ...] = ()
    """Columns with other names of the same person. The report suggests searching for these names too."""

    def __post_init__(self) -> None:
        ways = [bool(self.blank), self.delete, self.erase is not None, self.kept is not None]
        if sum(ways) != 1:
            raise ValueError(f"eraser {self.name!r}: give exactly one of blank, delete, erase and kept")
        missing = set(self.columns) - set(self.blank)
        if self.blank and missing:
            raise ValueError(f"eraser {self.name!r}: add {', '.join(sorted(missing))} to blank")


@dataclass(frozen=True, slots=True)
class Searched:
    """The result of one eraser: rows to change, rows that are still needed, and matches per column."""

    name: str
    table: str
    rows: int
    waiting: int
    columns: Mapping[str, int]
    kept: str | None = None


@dataclass(frozen=True, slots=True)
class ErasureReport:
    """The results of all erasers. `also_known_as` are other names of the person in the found rows."""

    searched: tuple[Searched, ...]
    also_known_as: tuple[str, ...]
    dry_run: bool

    @property
    def rows(self) -> dict[str, int]:
        """Return the number of changed rows of each eraser."""
        return {each.name: each.rows for each in self.searched if each.kept is None}

    @property
    def found(self) -> tuple[Searched, ...]:
        return tuple(each for each in self.searched if each.rows or each.waiting)

    def as_json(self) -> dict[str, Any]:
        return {
            "dry_run": self.dry_run,
            "rows": self.rows,
            "found": [asdict(each) for each in self.found],
            "also_known_as": list(self.also_known_as),
        }


async def erase(
    db: Database,
    person: str | Sequence[str],
    erasers: Iterable[Eraser],
    *,
    organization: UUID | None,
    actor: str | Identity,
    reason: str | None = None,
    dry_run: bool = False,
) -> ErasureReport:
    """Erase a person from one organization in one transaction. None means data that belongs to no organization.

    A dry run does the same and rolls back, so its report is exact. A message of a transaction that began before the
    erasure and commits after it is cancelled at the time of sending.
    """
    whom = Person(person)
    report = ErasureReport((), (), dry_run)
    try:
        async with db.transaction(role="engine") as tx:
            report = await _search_and_remove(tx, whom, erasers, organization, dry_run=dry_run)
            if dry_run:
                raise DryRun
            await audit.record(
                tx,
                "person.erased",
                entity_type="person",
                entity_id=whom.hash,
                metadata={"rows": report.rows, "references": [each.hash for each in whom.references]},
                actor=actor,
                reason=reason,
                organization=organization,
            )
            await tx.execute(RECORD, whom.forms, organization)
    except DryRun:
        return report
    await finish_erasures(db)
    return report


async def finish_erasures(db: Database) -> None:
    """Note that erasures which have committed are over. A node repeats this for a caller that was killed before.

    Until the commit, other transactions could begin and read the person. Until this step, no message to the person is
    sent.
    """
    async with db.transaction(role="engine") as tx:
        await tx.execute(FINISH)


async def _search_and_remove(
    tx: Transaction, person: Person, erasers: Iterable[Eraser], organization: UUID | None, *, dry_run: bool
) -> ErasureReport:
    searched: list[Searched] = []
    names: set[str] = set()
    for eraser in erasers:
        # Rows that are only reported are not locked: workers may need the rows of unfinished work.
        changes = eraser.kept is None and eraser.waits != "true"
        found = [each async for each in find(tx, eraser, person, organization, lock=changes)]
        names.update(name for each in found for name in each.names if not person.is_named(name))
        ready = [each for each in found if not each.waits]
        if ready and eraser.kept is None:
            await _remove(tx, eraser, person, ready, organization)
        searched.append(_searched(eraser, found))
    return ErasureReport(tuple(searched), tuple(sorted(names)), dry_run)


async def find(
    tx: Transaction,
    eraser: Eraser,
    person: Person,
    organization: UUID | None,
    *,
    lock: bool = False,
    values: bool = False,
) -> AsyncGenerator[Found]:
    """Yield the rows of the organization that are about the person. PostgreSQL finds candidates, `Person` decides.

    `lock` locks the candidates until the transaction ends; `values` returns the whole row.
    """
    if await tx.fetchval("select to_regclass($1) is null", eraser.table):
        return
    columns = ", ".join(f"{_value(eraser, column, kind)} as {column}" for column, kind in eraser.columns.items())
    names = "".join(f", t.{name}::text" for name in eraser.names)
    candidate = " or ".join(_candidate(eraser, column, kind) for column, kind in eraser.columns.items())
    # The last conditions tell PostgreSQL the types of parameters that the statement may not use otherwise.
    statement = (
        f"select t.ctid::text as found_row, {eraser.waits} as found_waits, {eraser.key} as found_key,"
        f" array_remove(array[null::text{names}], null) as found_names, {'to_jsonb(t)' if values else 'null::jsonb'}"
        f" as found_values, {columns} from {eraser.table} t where {eraser.scope} and ({candidate})"
        " and ($1::uuid is null or true) and $2::text[] is not null and $3::text[] is not null"
        + (" for update of t" if lock else "")
    )
    async for row in tx.conn.cursor(statement, organization, person.forms, person.needles):
        matched = tuple(name for name, kind in eraser.columns.items() if _matches(person, kind, row[name]))
        if matched:
            yield Found(
                row["found_row"],
                matched,
                row["found_waits"],
                row["found_key"],
                tuple(row["found_names"]),
                row["found_values"] or {},
            )


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


async def _remove(
    tx: Transaction, eraser: Eraser, person: Person, found: Sequence[Found], organization: UUID | None
) -> None:
    if eraser.erase is not None:
        await eraser.erase(tx, person, found, organization)
    elif eraser.delete:
        await tx.execute(
            f"delete from {eraser.table} t where t.ctid = any($1::text[]::tid[])", [each.row for each in found]
        )
    else:
        groups: dict[tuple[str, ...], list[str]] = {}
        for each in found:
            groups.setdefault(tuple(eraser.blank) if eraser.together else each.columns, []).append(each.row)
        for columns, rows in groups.items():
            changes = ", ".join(f"{column} = {eraser.blank[column]}" for column in columns)
            await tx.execute(
                f"update {eraser.table} t set {changes} from (select $2::text as mark) m"
                " where t.ctid = any($1::text[]::tid[])",
                rows,
                person.mark,
            )
    if eraser.then is not None:
        await eraser.then(tx, person, found, organization)


def _searched(eraser: Eraser, found: Sequence[Found]) -> Searched:
    columns: dict[str, int] = {}
    for each in found:
        for column in each.columns:
            columns[column] = columns.get(column, 0) + 1
    waiting = sum(each.waits for each in found)
    return Searched(eraser.name, eraser.table, len(found) - waiting, waiting, columns, eraser.kept)
