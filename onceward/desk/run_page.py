"""The progress of an action on several rows."""

from __future__ import annotations

from typing import Any

from onceward.desk.desk import Desk
from onceward.desk.tabs import frame, sees
from onceward.web.dashboard import Missing, View
from onceward.web.dashboard.page import Loader

RUN = """
select id, action, cardinality(rows) as total, done, succeeded, problems, stopped, created_at, ended_at
  from onceward.desk_runs where id = $1
"""


def loader(desk: Desk) -> Loader:
    """Return the loader of the page with the progress."""

    async def load(view: View) -> dict[str, Any]:
        run = await view.conn.fetchrow(RUN, view.number("id") or 0)
        owner, _, name = ("", "", "") if run is None else run["action"].partition(".")
        listing, _, action = name.partition(".")
        known = desk.actions.get((listing, action)) if owner == desk.name else None
        if run is None or known is None or not sees(desk, view, known.listing):
            raise Missing("this run does not exist, or belongs to another organization")
        return {
            **frame(desk, view, known.listing.name),
            "title": known.title,
            "crumbs": (known.listing.title, f"{desk.path}/{known.listing.name}"),
            "run": run,
            "listing": known.listing,
            "has_detail": known.listing.name in desk.details,
        }

    return load
