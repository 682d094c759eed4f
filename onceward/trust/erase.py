"""Find a person's data in one organization and remove it.

Each package lists in `ERASERS` of its module `erasers` which columns may contain personal data and how they are erased.
`UNSEARCHED` says for every other column why it contains none. What an index leads to is erased at once, in one
transaction. The rest of the tables is then read in turns, which an erasure continues after a crash (`erasure_scans`).
The audit log records the actor, the time, the number of rows, and the references as hashes only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any
from uuid import UUID

from onceward.db import Database, Transaction
from onceward.errors import OncewardError
from onceward.statements import read_statement
from onceward.trust.identity import Identity
from onceward.trust.person import BadReference, Person
from onceward.trust.person_rows import (
    INSTANCE,
    OWN_ROWS,
    Found,
    Kind,
    Walk,
    find_walk,
    is_searched,
    linked_rows,
    window,
)

__all__ = ["INSTANCE", "BadReference", "Eraser", "ErasureReport", "Found", "Kind", "Person", "Searched", "erase"]

FINISH = read_statement("trust", "finish_erasures")
TURN_ROWS = 2_000
"""How many rows a turn reads, in one transaction."""


class DryRun(OncewardError):
    """Rolls back the transaction of a dry run."""


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
    linked: str | None = None
    """SQL that leads to rows of the person by an index: `$1` is the organization, `$2` are the references in lower
    case, `$4` also as they were given, `$5` those that are UUIDs."""
    complete: bool = False
    """Whether `linked` leads to every row of the person, so that the table is not read."""
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
        if self.complete and self.linked is None:
            raise ValueError(f"eraser {self.name!r}: complete needs linked")


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


Progress = Callable[["Search"], None]
"""Called after each turn with the search as it stands."""


async def erase(
    db: Database,
    person: str | Sequence[str],
    erasers: Iterable[Eraser],
    *,
    organization: UUID | None,
    actor: str | Identity,
    reason: str | None = None,
    dry_run: bool = False,
    wait: bool = True,
    progress: Progress | None = None,
) -> ErasureReport:
    """Erase a person from one organization. None means data that belongs to no organization.

    The first transaction erases what indexes lead to. From then on no message to the person is sent that was queued
    before. The tables are then read in turns; without `wait`, the running processes do this, and the report has only
    the first part. If this call is killed, they continue too.

    A dry run does the same in one transaction and rolls back, so its report is exact.
    """
    from onceward.trust.erasure_scans import begin, complete

    search = Search(Person(person), organization, tuple(erasers))
    if dry_run:
        try:
            async with db.transaction(role="engine") as tx:
                await search.follow_links(tx)
                while await search.turn(tx):
                    if progress is not None:
                        progress(search)
                raise DryRun
        except DryRun:
            return search.report(dry_run=True)
    scan = await begin(db, search, actor=actor, reason=reason)
    await finish_erasures(db)
    if not wait:
        return search.report()
    return await complete(db, scan, search.erasers, progress)


async def finish_erasures(db: Database) -> None:
    """Note that erasures which have committed are over. A node repeats this for a caller that was killed before.

    Until the commit, other transactions could begin and read the person. Until this step, no message to the person is
    sent.
    """
    async with db.transaction(role="engine") as tx:
        await tx.execute(FINISH)


@dataclass
class Tally:
    """What one eraser has found so far."""

    rows: int = 0
    waiting: int = 0
    columns: dict[str, int] = field(default_factory=dict[str, int])


@dataclass
class Search:
    """One search for a person: what was found, and how far the tables are read."""

    person: Person
    organization: UUID | None
    erasers: tuple[Eraser, ...]
    found: dict[str, Tally] = field(default_factory=dict[str, Tally])
    names: set[str] = field(default_factory=set[str])
    current: int = 0
    """The eraser whose table is being read."""
    last: list[str] | None = None
    """The last row that was read there, by the index in whose order the table is read."""
    examined: int = 0
    _walks: dict[tuple[str, str], Walk | None] = field(default_factory=dict[tuple[str, str], "Walk | None"])

    @property
    def table(self) -> str:
        """The table that is being read."""
        return self.erasers[self.current].table if self.current < len(self.erasers) else ""

    async def follow_links(self, tx: Transaction) -> None:
        """Erase what indexes lead to. What stays is counted later, when its table is read."""
        for eraser in self.erasers:
            if eraser.linked is None or not (eraser.complete or changes(eraser)):
                continue
            if await self._walk(tx, eraser) is None:
                continue
            rows = await linked_rows(tx, eraser, self.person, self.organization, lock=changes(eraser))
            await self._take(tx, eraser, rows if eraser.complete else [row for row in rows if not row.waits])

    async def turn(self, tx: Transaction) -> bool:
        """Read the next rows, and erase what is found. Return whether there are more."""
        budget = TURN_ROWS
        while budget > 0 and self.current < len(self.erasers):
            eraser = self.erasers[self.current]
            walk = None if eraser.complete else await self._walk(tx, eraser)
            if walk is None:
                self.current, self.last = self.current + 1, None
                continue
            lock = changes(eraser)  # rows that are only reported are not locked: workers may need them
            read = await window(tx, eraser, self.person, self.organization, walk, self.last, lock=lock)
            await self._take(tx, eraser, read.found)
            self.examined += read.examined
            budget -= read.examined
            self.last = read.last
            self.current += self.last is None
        return self.current < len(self.erasers)

    async def _walk(self, tx: Transaction, eraser: Eraser) -> Walk | None:
        """Return in which order the table is read. None: it is not there, or has no rows of this organization."""
        if not is_searched(eraser, self.organization):
            return None
        key = (eraser.table, eraser.scope)
        if key not in self._walks:
            self._walks[key] = await find_walk(tx, eraser, self.organization)
        return self._walks[key]

    async def _take(self, tx: Transaction, eraser: Eraser, found: Sequence[Found]) -> None:
        self.names.update(name for each in found for name in each.names if not self.person.is_named(name))
        ready = [each for each in found if not each.waits]
        if ready and eraser.kept is None:
            await remove(tx, eraser, self.person, ready, self.organization)
        tally = self.found.setdefault(eraser.name, Tally())
        tally.waiting += len(found) - len(ready)
        tally.rows += len(ready)
        for each in found:
            for column in each.columns:
                tally.columns[column] = tally.columns.get(column, 0) + 1

    def report(self, *, dry_run: bool = False) -> ErasureReport:
        searched = (
            Searched(each.name, each.table, tally.rows, tally.waiting, tally.columns, each.kept)
            for each in self.erasers
            for tally in (self.found.get(each.name, Tally()),)
        )
        return ErasureReport(tuple(searched), tuple(sorted(self.names)), dry_run)


def changes(eraser: Eraser) -> bool:
    """Return whether the eraser changes rows, and does not only report them."""
    return eraser.kept is None and eraser.waits != "true"


async def remove(
    tx: Transaction, eraser: Eraser, person: Person, found: Sequence[Found], organization: UUID | None
) -> None:
    """Erase these rows."""
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
