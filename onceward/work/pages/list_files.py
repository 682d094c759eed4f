"""The list of a kind of work as a file, CSV or XLSX, with the filters of its page."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence

from asyncpg import Record
from starlette.requests import Request
from starlette.responses import Response

from onceward.desk.columns import Column
from onceward.desk.export import CHUNK, Sheet
from onceward.desk.files import csv_reply, xlsx_reply
from onceward.trust.identity import Identity, transaction_for
from onceward.web.dashboard.contribution import Extra, Handler
from onceward.web.dashboard.formats import words
from onceward.web.dashboard.routes import credential_text, identify
from onceward.web.dashboard.site import Site
from onceward.web.exposure import exposed
from onceward.work.pages.list_page import read_list
from onceward.work.pages.listing import Listing

TIMES = 10
"""A file examines this many times as many rows in one transaction as a page of the list."""


def file_routes(kind: Listing) -> tuple[Extra, ...]:
    """Return the routes that send the list as CSV and as XLSX."""
    path = f"/dashboard/{kind.slug}"
    return Extra(f"{path}.csv", _route(kind, is_csv=True)), Extra(f"{path}.xlsx", _route(kind, is_csv=False))


def _route(kind: Listing, *, is_csv: bool) -> Callable[[Site], Handler]:
    def make(site: Site) -> Handler:
        @exposed(credential=credential_text("viewer"))
        async def export(request: Request) -> Response:
            identity = await identify(request, "viewer")
            rows = _rows(site, identity, kind, dict(request.query_params))
            return csv_reply(_sheet(kind), rows) if is_csv else await xlsx_reply(_sheet(kind), rows)

        return export

    return make


def _sheet(kind: Listing) -> Sheet:
    label, key, at = kind.columns
    columns = (
        Column("id", "Id", kind="number"),
        Column("state", "State", words={each: words(each).capitalize() for each in kind.states}),
        Column("label", label),
        Column("about", kind.about_title),
        Column("key", key),
        Column("attempts", "Attempts", kind="number"),
        Column("message", "Message"),
        Column("at", at, kind="time"),
        Column("due_at", "Next attempt", kind="time"),
        Column("organization_id", "Organization"),
    )
    return Sheet(kind.slug, kind.slug.capitalize(), columns)


async def _rows(
    site: Site, identity: Identity, kind: Listing, params: dict[str, str]
) -> AsyncGenerator[Sequence[Record]]:
    """Return all rows that match, newest first. Each part has a transaction that examines a bounded number of rows."""
    before: int | None = None
    while True:
        async with transaction_for(site.database, identity) as tx:
            view = site.view(tx, identity.organization, params)
            walked = await read_list(kind, view, before=before, want=CHUNK, times=TIMES)
        yield walked.rows
        if walked.next is None:
            return
        before = walked.next
