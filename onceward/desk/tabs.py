"""What every page of a desk has: tabs to the lists that the viewer may see, and how values are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from asyncpg import Record

from onceward.desk.actions import DeskAction
from onceward.desk.cells import cell
from onceward.desk.charts import Chart
from onceward.desk.desk import Desk
from onceward.desk.list_rows import Reader
from onceward.desk.listing import Listing
from onceward.web.dashboard import View


def sees(desk: Desk, view: View, listing: Listing) -> bool:
    """Return whether the viewer may see a list."""
    return view.may("viewer", *desk.role_names(listing.roles))


def may_see(desk: Desk, view: View, chart: Chart) -> bool:
    """Return whether the viewer may see a chart."""
    return view.may("viewer", *desk.role_names(chart.roles))


def may_do(desk: Desk, view: View, action: DeskAction) -> bool:
    """Return whether the viewer may do an action."""
    return view.may("operator", *desk.role_names(action.roles))


def reader_of(view: View) -> Reader:
    return Reader(view.conn, view.site.database, view.organization)


async def zoned(desk: Desk, view: View, params: Mapping[str, str]) -> Mapping[str, str]:
    """Return the parameters with the time zone of the organization, if the desk knows it and the address names none."""
    if not desk.zone or params.get("zone") or view.everything:
        return params
    return {**params, "zone": await view.conn.fetchval(desk.zone) or ""}


def frame(desk: Desk, view: View, here: str) -> dict[str, Any]:
    """Return what the templates of all pages of a desk need."""
    if desk.start != desk.path:
        return {"desk": desk, "tabs": [], "cell": cell}
    tabs = [("Home", desk.path, here == "")]
    tabs += [
        (each.title, f"{desk.path}/{each.name}", here == each.name)
        for each in desk.listings.values()
        if sees(desk, view, each)
    ]
    return {"desk": desk, "tabs": tabs, "cell": cell}


def buttons(desk: Desk, actions: Sequence[DeskAction], row: Record) -> list[tuple[str, str, bool]]:
    """Return the title and the path of each action that a row offers, and whether it is dangerous."""
    return [
        (each.title, f"{desk.path}/{each.listing.name}/do/{each.name}?ids={row['_id']}", each.danger)
        for each in actions
        if row[f"_may_{each.name}"]
    ]
