"""The routes that send a listing as a file."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse

from onceward.desk.desk import Desk
from onceward.desk.export import CHUNK, ReadChunk, csv_lines, xlsx
from onceward.desk.list_request import Asked, ask
from onceward.desk.list_rows import Reader, Rows, read
from onceward.desk.listing import Listing
from onceward.trust.identity import Identity, transaction_for
from onceward.web.dashboard.contribution import Handler
from onceward.web.dashboard.routes import credential_text, identify
from onceward.web.dashboard.site import Site
from onceward.web.exposure import exposed

XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


def has_xlsx() -> bool:
    """Return whether the package that writes workbooks is installed."""
    return find_spec("xlsxwriter") is not None


def _chunks(site: Site, identity: Identity, listing: Listing) -> ReadChunk:
    async def read_chunk(asked: Asked) -> Rows:
        async with transaction_for(site.database, identity) as tx:
            return await read(Reader(tx, site.database, identity.organization), listing, asked, limit=CHUNK)

    return read_chunk


def csv_route(desk: Desk, listing: Listing) -> Callable[[Site], Handler]:
    """Return the route that streams a listing as CSV, with the filters of its address."""
    roles, parents = desk.role_names(listing.roles), desk.parents_of(listing)

    def make(site: Site) -> Handler:
        @exposed(credential=credential_text("viewer", roles=roles))
        async def export(request: Request) -> Response:
            identity = await identify(request, "viewer", roles=roles)
            asked = ask(listing, request.query_params, parents=parents)
            headers = {"Content-Disposition": f'attachment; filename="{listing.name}.csv"', "Cache-Control": "no-store"}
            lines = csv_lines(_chunks(site, identity, listing), listing, asked)
            return StreamingResponse(lines, media_type="text/csv; charset=utf-8", headers=headers)

        return export

    return make


def xlsx_route(desk: Desk, listing: Listing) -> Callable[[Site], Handler]:
    """Return the route that sends a listing as a workbook, with the filters of its address."""
    roles, parents = desk.role_names(listing.roles), desk.parents_of(listing)

    def make(site: Site) -> Handler:
        @exposed(credential=credential_text("viewer", roles=roles))
        async def export(request: Request) -> Response:
            identity = await identify(request, "viewer", roles=roles)
            asked = ask(listing, request.query_params, parents=parents)
            directory, path = await xlsx(_chunks(site, identity, listing), listing, asked)
            return FileResponse(
                path,
                media_type=XLSX,
                filename=f"{listing.name}.xlsx",
                headers={"Cache-Control": "no-store"},
                background=BackgroundTask(directory.cleanup),
            )

        return export

    return make
