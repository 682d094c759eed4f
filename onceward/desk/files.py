"""The routes that send a listing as a file."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse

from onceward.desk.desk import Desk
from onceward.desk.exporting import csv_lines, xlsx
from onceward.desk.listing import Asked, Listing, ask
from onceward.trust.identity import Identity, transaction_for
from onceward.web.dashboard.contribution import Handler
from onceward.web.dashboard.routes import credential_text, identify
from onceward.web.dashboard.site import Site
from onceward.web.exposure import exposed

XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


def csv_route(desk: Desk, listing: Listing) -> Callable[[Site], Handler]:
    """Return the route that streams a listing as CSV, with the filters of its address."""
    roles = desk.role_names(listing.roles)

    def make(site: Site) -> Handler:
        @exposed(credential=credential_text("viewer", roles=roles))
        async def export(request: Request) -> Response:
            identity = await identify(request, "viewer", roles=roles)
            asked = ask(listing, request.query_params)
            headers = {"Content-Disposition": f'attachment; filename="{listing.name}.csv"', "Cache-Control": "no-store"}
            lines = _lines(site, identity, listing, asked)
            return StreamingResponse(lines, media_type="text/csv; charset=utf-8", headers=headers)

        return export

    return make


async def _lines(site: Site, identity: Identity, listing: Listing, asked: Asked) -> AsyncGenerator[str]:
    async with transaction_for(site.database, identity) as tx:
        async for line in csv_lines(tx, listing, asked):
            yield line


def xlsx_route(desk: Desk, listing: Listing) -> Callable[[Site], Handler]:
    """Return the route that sends a listing as a workbook, with the filters of its address."""
    roles = desk.role_names(listing.roles)

    def make(site: Site) -> Handler:
        @exposed(credential=credential_text("viewer", roles=roles))
        async def export(request: Request) -> Response:
            identity = await identify(request, "viewer", roles=roles)
            async with transaction_for(site.database, identity) as tx:
                directory, path = await xlsx(tx, listing, ask(listing, request.query_params))
            headers = {"Cache-Control": "no-store"}
            return FileResponse(
                path,
                media_type=XLSX,
                filename=f"{listing.name}.xlsx",
                headers=headers,
                background=BackgroundTask(directory.cleanup),
            )

        return export

    return make
