"""The home page of a desk: numbers, the first rows of some lists, and charts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

from onceward.desk.charts import Drawn, draw
from onceward.desk.desk import Desk, DeskFigure
from onceward.desk.list_request import ask
from onceward.desk.list_rows import read
from onceward.desk.tabs import frame, may_see, reader_of, sees, zoned
from onceward.money import format_amount
from onceward.web.dashboard import View
from onceward.web.dashboard.formats import number
from onceward.web.dashboard.page import Loader


def loader(desk: Desk) -> Loader:
    """Return the loader of the home page. It shows only what the roles of the viewer allow."""

    async def load(view: View) -> dict[str, Any]:
        if desk.start != desk.path:
            return {"to": desk.start}
        charts = await _charts(desk, view)
        if desk.home is not None:
            return {**frame(desk, view, ""), "charts": charts, **await desk.home[0](view)}
        return {
            **frame(desk, view, ""),
            "title": desk.title,
            "figures": [await _figure(desk, view, each) for each in desk.figures if _shown(desk, view, each)],
            "shortlists": await _shortlists(desk, view),
            "charts": charts,
        }

    return load


async def _charts(desk: Desk, view: View) -> list[Drawn]:
    today = datetime.now(UTC).date()
    shown = [each for each in desk.charts if may_see(desk, view, each)]
    return [await draw(each, view.conn, view.organization, today=today) for each in shown]


def _shown(desk: Desk, view: View, figure: DeskFigure) -> bool:
    return sees(desk, view, desk.listings[figure.listing]) if figure.listing else view.may("viewer")


async def _figure(desk: Desk, view: View, figure: DeskFigure) -> dict[str, Any]:
    value = await view.conn.fetchval(figure.sql, *([view.organization] if "$1" in figure.sql else [])) or 0
    path = f"{desk.path}/{figure.listing}" if figure.listing else desk.path
    shown = format_amount(int(value), figure.currency, "en") if figure.kind == "money" else number(float(value))
    warns = figure.warn_above is not None and value > figure.warn_above
    return {
        "title": figure.title,
        "value": shown,
        "path": f"{path}?{figure.query}" if figure.query else path,
        "level": "warn" if warns else "",
        "note": figure.note,
    }


async def _shortlists(desk: Desk, view: View) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = []
    for each in desk.shortlists:
        if sees(desk, view, each.listing):
            asked = ask(each.listing, await zoned(desk, view, dict(parse_qsl(each.query))))
            rows = await read(reader_of(view), each.listing, asked, limit=each.rows)
            path = f"{desk.path}/{each.listing.name}?{each.query}"
            shown.append({"title": each.title, "listing": each.listing, "rows": rows.rows, "path": path})
    return shown
