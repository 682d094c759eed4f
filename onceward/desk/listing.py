"""A listing: rows of one table with columns, filters, search and sorting, read page by page through a cursor."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Literal, NamedTuple

from asyncpg import Record

from onceward.desk.columns import Column
from onceward.desk.errors import WrongDesk
from onceward.web.dashboard import Missing
from onceward.web.dashboard.page import PageReader

PAGE = 50
COUNTED = 10_000
"""Up to this many rows are counted; above, the planner's estimate is shown."""
WORD = re.compile(r"[\w@.+-]+")
MOST_WORDS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Rows of one table: `Listing(name="books", title="Books", noun="book", rows="library.books r", columns=(...))`."""

    name: str
    title: str
    noun: str
    """One row in the singular: "book"."""
    rows: str
    """The FROM clause; the row itself has the alias `r`. Row-level security limits it to the organization."""
    columns: tuple[Column, ...]
    id: str = "r.id"
    id_type: Literal["uuid", "bigint", "text"] = "uuid"
    where: str = "true"
    newest_by: str = ""
    """The column by which the list is sorted at first, the largest value first; by default the id."""
    empty: str = ""
    """What to do if there is no row yet."""
    roles: tuple[str, ...] = ()
    """The roles of the desk that may see it, besides viewers, operators and owners of the organization."""
    organization: str = "r.organization_id"
    every_s: float | None = 2.0
    """Seconds between two updates while somebody watches; None means that it does not update by itself."""

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if len(set(names)) != len(names) or not names:
            raise WrongDesk(f"listing {self.name}: give columns with different names, not {names}")
        if self.newest_by and not self.column(self.newest_by).sort:
            raise WrongDesk(f"listing {self.name}: column {self.newest_by} of `newest_by` needs sort=True")
        if "r" not in re.findall(r"\b\w+\b", self.rows):
            raise WrongDesk(f"listing {self.name}: `rows` must give the row the alias r, as in 'library.books r'")

    def column(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise WrongDesk(f"listing {self.name} has no column {name}; it has {[each.name for each in self.columns]}")

    @property
    def searched(self) -> tuple[Column, ...]:
        return tuple(column for column in self.columns if column.search)

    @property
    def words(self) -> str:
        """Return the expression that the search looks at. An index on exactly this text makes it fast."""
        joined = " || ' ' || ".join(f"coalesce({column.expression}, '')" for column in self.searched)
        return f"to_tsvector('simple', {joined})"


@dataclass(frozen=True, slots=True)
class Order:
    """A column and a direction; without a column by id."""

    column: Column | None
    down: bool

    @property
    def text(self) -> str:
        name = "" if self.column is None else self.column.name
        return f"-{name}" if self.down and name else name


@dataclass(frozen=True, slots=True)
class Asked:
    """What a page of a listing was asked for: conditions with their arguments, the order, and where it begins."""

    where: tuple[str, ...]
    arguments: tuple[Any, ...]
    order: Order
    after: tuple[str, str] | None
    problem: str = ""

    @property
    def is_narrowed(self) -> bool:
        return len(self.where) > 1


class Rows(NamedTuple):
    """One page: the rows, and the cursor of the next page."""

    rows: Sequence[Record]
    next: str | None


def ask(listing: Listing, params: Mapping[str, str], *, parents: Mapping[str, str] | None = None) -> Asked:
    """Read what an address asks for. What makes no sense is left out, and `problem` says what.

    `parents` are columns of other objects by which the list can be limited: the tab of a detail page.
    """
    where, arguments, problems = [listing.where], list[Any](), list[str]()

    def add(condition: str, *values: Any) -> None:
        numbers = range(len(arguments) + 1, len(arguments) + 1 + len(values))
        where.append(condition.format(*(f"${number}" for number in numbers)))
        arguments.extend(values)

    for column in listing.columns:
        if column.filter:
            problems += _filter(column, params, add)
    for name, expression in (parents or {}).items():
        if value := params.get(name, "").strip():
            add(f"({expression})::text = {{}}", value)
    words = WORD.findall(params.get("q", ""))[:MOST_WORDS]
    if words and listing.searched:
        add(f"{listing.words} @@ to_tsquery('simple', {{}})", " & ".join(_prefix(word) for word in words))
    return Asked(tuple(where), tuple(arguments), _order(listing, params), _cursor(params), "; ".join(problems))


def _prefix(word: str) -> str:
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "':*"


def _filter(column: Column, params: Mapping[str, str], add: Any) -> list[str]:
    if column.kind in ("time", "date"):
        return _filter_days(column, params, add)
    value = params.get(column.name, "").strip().replace("\x00", "")
    if not value:
        return []
    if column.kind == "yes":
        add(f"({column.expression}) = {{}}::boolean", value == "yes")
    elif column.words and value not in column.words:
        return [f"{column.title} has no value {value[:40]!r}"]
    else:
        add(f"({column.expression})::text = {{}}", value[:200])
    return []


def _filter_days(column: Column, params: Mapping[str, str], add: Any) -> list[str]:
    problems: list[str] = []
    for end, sign in (("from", ">="), ("to", "<")):
        if text := params.get(f"{column.name}_{end}", "").strip():
            try:
                day = date.fromisoformat(text)
                day += timedelta(days=1) if end == "to" else timedelta()
            except (ValueError, OverflowError):
                problems.append(f"{column.title}: {text[:20]!r} is not a day such as 2026-03-01")
            else:
                add(f"({column.expression}) {sign} {{}}::date", day)
    return problems


def _order(listing: Listing, params: Mapping[str, str]) -> Order:
    text = params.get("sort", "")
    name = text.removeprefix("-")
    column = next((each for each in listing.columns if each.sort and each.name == name), None)
    if column is not None:
        return Order(column, text.startswith("-"))
    return Order(listing.column(listing.newest_by) if listing.newest_by else None, True)


def _cursor(params: Mapping[str, str]) -> tuple[str, str] | None:
    text = params.get("after", "")
    if not text:
        return None
    try:
        value, row = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, binascii.Error, TypeError):
        value = row = None
    if not isinstance(value, str) or not isinstance(row, str):
        raise Missing("this address names no page of the list: open the list from its beginning")
    return value, row


def cursor(row: Record) -> str:
    """Return the cursor of the page after this row."""
    return base64.urlsafe_b64encode(json.dumps([row["_sort"], row["_id"]]).encode()).decode().rstrip("=")


def select(
    listing: Listing,
    asked: Asked,
    *,
    extra: Sequence[Column] = (),
    also: Mapping[str, str] | None = None,
    everything: bool = False,
) -> tuple[str, list[Any]]:
    """Return the statement for the rows after the cursor, without its limit, and its arguments.

    `also` are further expressions by name.
    """
    order = asked.order
    by = listing.id if order.column is None else order.column.expression
    by_type = listing.id_type if order.column is None else order.column.sql_type
    shown = [f"({listing.id})::text as _id", f"({by})::text as _sort"]
    for column in (*listing.columns, *extra):
        shown.append(f"{column.expression} as {column.name}")
        if column.currency:
            shown.append(f"{column.currency} as _currency_{column.name}")
    shown += [f"({expression}) as {name}" for name, expression in (also or {}).items()]
    if everything:
        shown.append(
            "(select o.name from onceward.organizations o"
            f" where o.organization_id = {listing.organization}) as _organization"
        )
    where, arguments = list(asked.where), list(asked.arguments)
    sign, direction = ("<", "desc") if order.down else (">", "asc")
    if asked.after is not None:
        first, second = len(arguments) + 1, len(arguments) + 2
        where.append(f"({by}, {listing.id}) {sign} (${first}::text::{by_type}, ${second}::text::{listing.id_type})")
        arguments += asked.after
    text = (
        f"select {', '.join(shown)} from {listing.rows} where {' and '.join(f'({each})' for each in where)}"
        f" order by {by} {direction}, {listing.id} {direction}"
    )
    return text, arguments


async def read(
    conn: PageReader, listing: Listing, asked: Asked, *, limit: int = PAGE, everything: bool = False
) -> Rows:
    """Read one page."""
    statement, arguments = select(listing, asked, everything=everything)
    rows = await conn.fetch(f"{statement} limit {limit + 1}", *arguments)
    if any(row["_sort"] is None for row in rows):
        column = asked.order.column
        name = "the id" if column is None else column.name
        raise WrongDesk(f"listing {listing.name}: {name} is null in some rows, so people cannot sort by it")
    more = len(rows) > limit
    rows = rows[:limit]
    return Rows(rows, cursor(rows[-1]) if more else None)


class Count(NamedTuple):
    """How many rows there are; `exact` is false for an estimate."""

    rows: int
    exact: bool


async def count(conn: PageReader, listing: Listing, asked: Asked) -> Count:
    """Count the rows up to a bound, and estimate above: the cost does not grow with the table."""
    where = " and ".join(f"({each})" for each in asked.where)
    plan = await conn.fetchval(f"explain (format json) select 1 from {listing.rows} where {where}", *asked.arguments)
    estimate = (
        int(json.loads(plan)[0]["Plan"]["Plan Rows"]) if isinstance(plan, str) else int(plan[0]["Plan"]["Plan Rows"])
    )
    if estimate > 2 * COUNTED:
        return Count(estimate, exact=False)
    rows = await conn.fetchval(
        f"select count(*) from (select 1 from {listing.rows} where {where} limit {COUNTED + 1}) counted",
        *asked.arguments,
    )
    return Count(rows, exact=True) if rows <= COUNTED else Count(max(rows, estimate), exact=False)
