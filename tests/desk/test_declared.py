"""Every statement that the desks of the bundled apps declare, against the real tables."""

from __future__ import annotations

from datetime import date
from uuid import UUID

import asyncpg
import pytest

from onceward.desk.desk import DESKS, Desk
from onceward.desk.list_request import ask
from onceward.desk.list_rows import select
from onceward.desk.row_page import one_row
from onceward_apps import all as bundled

NOBODY = {"uuid": str(UUID(int=0)), "bigint": "0", "text": "x"}
NAMES = ("learning", "ticketing", "clinic", "engagement", "coursegen")


@pytest.mark.parametrize("name", NAMES)
async def test_every_statement_of_a_desk_is_valid(apps_database_url: str, name: str) -> None:
    assert bundled.app is not None
    desk = DESKS[name]
    conn = await asyncpg.connect(apps_database_url)
    try:
        await conn.execute("set default_transaction_read_only = on")
        await _check(conn, desk)
    finally:
        await conn.close()


async def _check(conn: asyncpg.Connection, desk: Desk) -> None:
    for listing in desk.listings.values():
        parents = desk.parents_of(listing)
        queries = [{}, {"q": "x"}, *({"sort": column.name} for column in listing.columns if column.sort)]
        queries += [{name: NOBODY[parent.type]} for name, parent in parents.items()]
        for column in listing.filtered:
            value = "today" if column.is_days else "yes" if column.kind == "yes" else next(iter(column.words), "x")
            queries.append({column.name: value})
        for query in queries:
            asked = ask(listing, query, parents=parents)
            assert not asked.problem, query
            statement, arguments = select(listing, asked, everything=True)
            await conn.fetch(f"{statement} limit 1", *arguments)
        for _, preset in listing.presets:
            given = dict(pair.split("=") for pair in preset.split("&"))
            assert not ask(listing, given).problem, preset
            assert ask(listing, given).is_narrowed, preset
        for action in desk.actions_of(listing, "row", "rows"):
            await conn.fetch(
                f"select ({action.when}) from {listing.rows} where {listing.id} = $1::text::{listing.id_type}",
                NOBODY[listing.id_type],
            )
        if (detail := desk.details.get(listing.name)) is not None:
            await conn.fetch(one_row(listing, detail, offered={}), NOBODY[listing.id_type])
            for sql in (detail.timeline, detail.documents):
                if sql:
                    await conn.fetch(sql, NOBODY[listing.id_type])
    for figure in desk.figures:
        await conn.fetchval(figure.sql, *([None] if "$1" in figure.sql else []))
    for chart in desk.charts:
        values = [None] if chart.kind == "bars" else [date(2031, 1, 1), None]
        assert await conn.fetch(chart.sql, *[each for n, each in enumerate(values, 1) if f"${n}" in chart.sql]) == []
