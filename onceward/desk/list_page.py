"""The page of a list: rows, filters, saved views, and buttons for actions."""

from __future__ import annotations

from typing import Any

from onceward.desk.columns import Column
from onceward.desk.desk import Desk
from onceward.desk.files import has_xlsx
from onceward.desk.list_request import ask
from onceward.desk.list_rows import Count, count, read
from onceward.desk.listing import Listing
from onceward.desk.saved_views import views_of
from onceward.desk.tabs import buttons, frame, may_do, reader_of, zoned
from onceward.web.dashboard import View
from onceward.web.dashboard.formats import about, number
from onceward.web.dashboard.page import Loader

MOST_CHOICES = 300
SHOWN_FILTERS = 3
"""The other filters of a list are shown when people ask for them. Those with choices come first."""


def loader(desk: Desk, listing: Listing) -> Loader:
    """Return the loader of a list."""
    parents = desk.parents_of(listing)

    async def load(view: View) -> dict[str, Any]:
        asked = ask(listing, await zoned(desk, view, view.params), parents=parents)
        in_rows = [
            each for each in desk.actions_of(listing, "row", "rows") if each.in_list and may_do(desk, view, each)
        ]
        also = {f"_may_{each.name}": each.when for each in in_rows}
        reader = reader_of(view)
        rows, following = await read(reader, listing, asked, also=also, everything=view.everything)
        counted = await count(reader, listing, asked)
        ordered = sorted(listing.filtered, key=lambda column: not (column.words or column.choices))
        return {
            **frame(desk, view, listing.name),
            "title": listing.title,
            "listing": listing,
            "rows": rows,
            "next": following,
            "count": counted.rows,
            "counted": listing.many(counted.rows, _count_text(view, counted)),
            "asked": asked,
            "narrowed": asked.is_narrowed,
            "views": await views_of(view, f"{desk.name}.{listing.name}"),
            "everything": view.everything,
            "has_detail": listing.name in desk.details,
            "has_xlsx": has_xlsx(),
            "on_list": [each for each in desk.actions_of(listing, "list") if may_do(desk, view, each)],
            "on_rows": [each for each in desk.actions_of(listing, "rows") if may_do(desk, view, each)],
            "buttons": {row["_id"]: buttons(desk, in_rows, row) for row in rows} if in_rows else {},
            "filters": [(column, await _choices(view, column.choices)) for column in ordered],
            "shown_filters": SHOWN_FILTERS,
            "hidden_filter_used": any(_is_used(view, column) for column in ordered[SHOWN_FILTERS:]),
            "parents": {name: view.text(name) for name in parents if view.text(name)},
        }

    return load


def _is_used(view: View, column: Column) -> bool:
    return any(view.text(name) for name in (column.name, f"{column.name}_from", f"{column.name}_to"))


async def _choices(view: View, sql: str) -> list[tuple[str, str]]:
    if not sql:
        return []
    rows = await view.conn.fetch(f"select * from ({sql}) c limit {MOST_CHOICES}")
    return [(row["value"], row["word"]) for row in rows]


def _count_text(view: View, counted: Count) -> str:
    if counted.exact:
        return number(counted.rows)
    return about(counted.rows) if view.everything else f"more than {number(counted.rows)}"
