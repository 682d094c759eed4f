"""Lists as files: the answers, and the routes of the listings of a desk."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse

from onceward.desk.desk import Desk
from onceward.desk.export import CHUNK, Chunks, Sheet, chunks, csv_lines, xlsx
from onceward.desk.list_request import Asked, ask
from onceward.desk.list_rows import Reader, Rows, read
from onceward.desk.listing import Listing
from onceward.trust.identity import transaction_for
from onceward.web.dashboard.contribution import Handler
from onceward.web.dashboard.routes import credential_text, identify
from onceward.web.dashboard.site import Site
from onceward.web.exposure import exposed

XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


def has_xlsx() -> bool:
    """Return whether the package that writes workbooks is installed."""
    return find_spec("xlsxwriter") is not None


def csv_reply(sheet: Sheet, rows: Chunks) -> Response:
    """Return the answer that streams a list as CSV."""
    headers = {"Content-Disposition": f'attachment; filename="{sheet.name}.csv"', "Cache-Control": "no-store"}
    return StreamingResponse(csv_lines(sheet, rows), media_type="text/csv; charset=utf-8", headers=headers)


async def xlsx_reply(sheet: Sheet, rows: Chunks) -> Response:
    """Return the answer that sends a list as a workbook."""
    directory, path = await xlsx(sheet, rows)
    return FileResponse(
        path,
        media_type=XLSX,
        filename=f"{sheet.name}.xlsx",
        headers={"Cache-Control": "no-store"},
        background=BackgroundTask(directory.cleanup),
    )


def csv_route(desk: Desk, listing: Listing) -> Callable[[Site], Handler]:
    """Return the route that streams a listing as CSV, with the filters of its address."""
    roles = desk.role_names(listing.roles)

    def make(site: Site) -> Handler:
        @exposed(credential=credential_text("viewer", roles=roles))
        async def export(request: Request) -> Response:
            return csv_reply(_sheet(listing), await _asked_for(site, request, desk, listing))

        return export

    return make


def xlsx_route(desk: Desk, listing: Listing) -> Callable[[Site], Handler]:
    """Return the route that sends a listing as a workbook, with the filters of its address."""
    roles = desk.role_names(listing.roles)

    def make(site: Site) -> Handler:
        @exposed(credential=credential_text("viewer", roles=roles))
        async def export(request: Request) -> Response:
            return await xlsx_reply(_sheet(listing), await _asked_for(site, request, desk, listing))

        return export

    return make


def _sheet(listing: Listing) -> Sheet:
    return Sheet(listing.name, listing.title, listing.columns)


async def _asked_for(site: Site, request: Request, desk: Desk, listing: Listing) -> Chunks:
    """Return the rows that a request asks for, if its sender may see them."""
    identity = await identify(request, "viewer", roles=desk.role_names(listing.roles))

    async def read_chunk(asked: Asked) -> Rows:
        async with transaction_for(site.database, identity) as tx:
            return await read(Reader(tx, site.database, identity.organization), listing, asked, limit=CHUNK)

    return chunks(read_chunk, ask(listing, request.query_params, parents=desk.parents_of(listing)))
