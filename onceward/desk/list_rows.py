"""Read the rows of a listing: one page after a cursor, and a count whose cost does not grow with the table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg
from asyncpg import Record

from onceward.desk.columns import Column
from onceward.desk.errors import WrongDesk
from onceward.desk.list_request import Asked, cursor
from onceward.desk.listing import Listing
from onceward.web.dashboard import Missing
from onceward.web.dashboard.page import PageReader

PAGE = 50
COUNTED = 10_000
"""Up to this many rows are counted; above, an administrator sees the planner's estimate."""


class Rows(NamedTuple):
    """One page: the rows, and the cursor of the next page."""

    rows: Sequence[Record]
    next: str | None


class Reader(NamedTuple):
    """Reads what a viewer may see with `conn`, and finds words as the engine.

    Row-level security looks at each row that was read, and uses no index. So the organization is an explicit condition
    too. For words no index can be used at all, because their operator is not leakproof: the engine finds the ids, and
    the viewer reads the rows with these ids.
    """

    conn: PageReader
    engine: PageReader
    organization: UUID | None


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
    shown: list[str] = []
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
    return _statement(listing, asked, shown)


def _statement(listing: Listing, asked: Asked, shown: Sequence[str]) -> tuple[str, list[Any]]:
    order = asked.order
    by = listing.id if order.column is None else order.column.expression
    by_type = listing.id_type if order.column is None else order.column.sql_type
    where, arguments = list(asked.where), list(asked.arguments)
    sign, direction = ("<", "desc") if order.down else (">", "asc")
    if asked.after is not None:
        first, second = len(arguments) + 1, len(arguments) + 2
        where.append(f"({by}, {listing.id}) {sign} (${first}::text::{by_type}, ${second}::text::{listing.id_type})")
        arguments += asked.after
    columns = ", ".join((f"({listing.id})::text as _id", f"({by})::text as _sort", *shown))
    text = (
        f"select {columns} from {listing.rows} where {' and '.join(f'({each})' for each in where)}"
        f" order by {by} {direction}, {listing.id} {direction}"
    )
    return text, arguments


async def read(
    reader: Reader,
    listing: Listing,
    asked: Asked,
    *,
    limit: int = PAGE,
    also: Mapping[str, str] | None = None,
    everything: bool = False,
) -> Rows:
    """Read one page."""
    try:
        if asked.searches and reader.organization is not None:
            asked = await _found(reader, listing, asked, limit=limit + 1)
        asked = in_organization(listing, asked, reader.organization)
        statement, arguments = select(listing, asked, also=also, everything=everything)
        rows = await reader.conn.fetch(f"{statement} limit {limit + 1}", *arguments)
    except asyncpg.DataError as error:
        if asked.after is None:
            raise
        raise Missing("this address names no page of the list: open the list from its beginning") from error
    if any(row["_sort"] is None for row in rows):
        column = asked.order.column
        name = "the id" if column is None else column.name
        raise WrongDesk(f"listing {listing.name}: {name} is null in some rows, so people cannot sort by it")
    more = len(rows) > limit
    rows = rows[:limit]
    return Rows(rows, cursor(rows[-1]) if more else None)


async def _found(reader: Reader, listing: Listing, asked: Asked, *, limit: int) -> Asked:
    """Return a question for the rows of this page by their ids, which the engine found."""
    statement, arguments = _statement(listing, in_organization(listing, asked, reader.organization), ())
    ids = [row["_id"] for row in await reader.engine.fetch(f"{statement} limit {limit}", *arguments)]
    return Asked((listing.where, f"{listing.id} = any($1::text[]::{listing.id_type}[])"), (ids,), asked.order)


def in_organization(listing: Listing, asked: Asked, organization: UUID | None) -> Asked:
    """Return the question with the organization as a condition.

    Without it, an index that begins with the organization does not help: row-level security cannot use one.
    """
    if organization is None:
        return asked
    where = (*asked.where, f"{listing.organization} = ${len(asked.arguments) + 1}")
    return Asked(where, (*asked.arguments, organization), asked.order, asked.after, asked.problem, asked.searches)


class Count(NamedTuple):
    """How many rows there are; `exact` is false for an estimate."""

    rows: int
    exact: bool


async def count(reader: Reader, listing: Listing, asked: Asked) -> Count:
    """Count the rows up to a bound, and estimate above: the cost does not grow with the table."""
    conn = reader.engine if asked.searches else reader.conn
    asked = in_organization(listing, asked, reader.organization)
    where = " and ".join(f"({each})" for each in asked.where)
    if reader.organization is not None:
        # An estimate knows the rows of all organizations, and would tell a small one how many others have.
        rows = await _counted(conn, listing, where, asked)
        return Count(rows, exact=True) if rows <= COUNTED else Count(COUNTED, exact=False)
    plan = await conn.fetchval(f"explain (format json) select 1 from {listing.rows} where {where}", *asked.arguments)
    estimate = int((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]["Plan Rows"])
    if estimate > 2 * COUNTED:
        return Count(estimate, exact=False)
    rows = await _counted(conn, listing, where, asked)
    return Count(rows, exact=True) if rows <= COUNTED else Count(max(rows, estimate), exact=False)


async def _counted(conn: PageReader, listing: Listing, where: str, asked: Asked) -> int:
    """Count the rows, to one more than the bound."""
    return await conn.fetchval(
        f"select count(*) from (select 1 from {listing.rows} where {where} limit {COUNTED + 1}) counted",
        *asked.arguments,
    )


async def matching(reader: Reader, listing: Listing, asked: Asked, *, most: int) -> list[str]:
    """Return the ids of the rows that match, at most this many and one more."""
    conn = reader.engine if asked.searches else reader.conn
    asked = in_organization(listing, asked, reader.organization)
    where = " and ".join(f"({each})" for each in asked.where)
    rows = await conn.fetch(
        f"select ({listing.id})::text as id from {listing.rows} where {where} order by {listing.id} limit {most + 1}",
        *asked.arguments,
    )
    return [row["id"] for row in rows]
