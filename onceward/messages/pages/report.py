"""The dashboard page with the report about messages, and the same report as CSV."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

from fastapi import Request
from starlette.responses import Response, StreamingResponse

from onceward.messages.settings import MessagesSettings
from onceward.messages.statistics import COUNTS, Period, csv_lines, failures, load_report, totals
from onceward.trust import transaction_for
from onceward.web.auth import authenticator_of
from onceward.web.dashboard.page import Page, View
from onceward.web.dashboard.site import Site
from onceward.web.exposure import exposed
from onceward.web.problems import Problem

PATH = "/dashboard/message-report"
SHOWN = 200


async def load(view: View) -> dict[str, Any]:
    settings = view.site.settings.of(MessagesSettings)
    today = datetime.now(UTC).date()
    problem = ""
    try:
        period = Period.parse(view.text("from"), view.text("to"), today=today)
    except ValueError as error:
        period, problem = Period.parse("", "", today=today), str(error)
    lines = await load_report(view.conn, period, organization=view.organization, prices=settings.message_prices)
    return {
        "title": "Message report",
        "period": period,
        "problem": problem,
        "counts": COUNTS,
        "totals": totals(lines),
        "failures": failures(lines)[:SHOWN],
        "currency": settings.message_currency,
        "has_prices": bool(settings.message_prices),
        "everything": view.everything,
    }


def csv_route(site: Site) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    """Return the route that streams the report as CSV."""

    @exposed(credential="session or key: viewer")
    async def report(request: Request) -> Response:
        identity = await authenticator_of(request).identify(request)
        identity.require("viewer")
        query = request.query_params
        try:
            period = Period.parse(query.get("from", ""), query.get("to", ""), today=datetime.now(UTC).date())
        except ValueError as error:
            raise Problem(422, str(error)) from None
        prices = site.settings.of(MessagesSettings).message_prices
        async with transaction_for(site.database, identity) as tx:
            lines = await load_report(tx, period, organization=None, prices=prices)
        name = f"messages-{period.first}-{period.last}.csv"
        headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
        return StreamingResponse(csv_lines(lines), media_type="text/csv; charset=utf-8", headers=headers)

    return report


PAGES = (
    Page(name="message-report", path=PATH, title="Message report", section="message-report", load=load, every_s=None),
)
