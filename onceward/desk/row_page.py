"""The page of one row: its facts, related lists, documents, a timeline, notes and actions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from asyncpg import Record

from onceward.desk.charts import draw
from onceward.desk.desk import Desk
from onceward.desk.detail import Detail
from onceward.desk.form_changes import described
from onceward.desk.list_request import Asked, Order, Parent, ask, is_id
from onceward.desk.list_rows import read, select
from onceward.desk.listing import Listing
from onceward.desk.tabs import buttons, frame, may_do, may_see, reader_of, sees
from onceward.desk.timeline import Moment, named, read_timeline
from onceward.tx import Tx
from onceward.web.dashboard import Missing, View
from onceward.web.dashboard.page import Loader

SHOWN_RELATED = 20


def one_row(listing: Listing, detail: Detail, *, offered: Mapping[str, str]) -> str:
    """Return the statement that reads one row by its id, with the title of its page and which actions it offers."""
    asked = Asked((listing.where, f"{listing.id} = $1::text::{listing.id_type}"), (), Order(None, True))
    also = {"_title": detail.title, **{f"_may_{name}": when for name, when in offered.items()}}
    text, _ = select(listing, asked, extra=detail.facts, also=also)
    return text


async def named_row(tx: Tx, desk: Desk, listing: Listing, id: str) -> Record | None:
    """Return the row of a list with its columns and, as `_title`, what it is called."""
    detail = desk.details.get(listing.name)
    title = listing.columns[0].expression if detail is None else detail.title
    asked = Asked((listing.where, f"{listing.id} = $1::text::{listing.id_type}"), (), Order(None, True))
    statement, _ = select(listing, asked, also={"_title": f"({title})::text"})
    return await tx.fetchrow(statement, id)


def loader(desk: Desk, listing: Listing, detail: Detail) -> Loader:
    """Return the loader of the page of one row."""
    actions = desk.actions_of(listing, "row", "rows")
    statement = one_row(listing, detail, offered={action.name: action.when for action in actions})

    def describe(recorded: str, changes: Mapping[str, Any]) -> tuple[str, ...]:
        action = desk.action_named(recorded)
        return () if action is None else described(action.model, changes)

    async def load(view: View) -> dict[str, Any]:
        id = view.text("id")
        row = await view.conn.fetchrow(statement, id) if is_id(listing.id_type, id) else None
        if row is None:
            raise Missing(f"this {listing.noun} does not exist, or belongs to another organization")
        types, words = (listing.entity, *detail.also), {each.recorded_as(desk.name): each.title for each in actions}
        moments = await read_timeline(
            view.conn, types, id, words={**words, **detail.words}, describe=describe, further=detail.timeline
        )
        today = datetime.now(UTC).date()
        allowed = [each for each in actions if may_do(desk, view, each)]
        return {
            **frame(desk, view, listing.name),
            "title": row["_title"],
            "crumbs": (listing.title, f"{desk.path}/{listing.name}"),
            "listing": listing,
            "detail": detail,
            "row": row,
            "facts": (*listing.columns, *detail.facts),
            "charts": [
                await draw(each, view.conn, id, today=today) for each in detail.charts if may_see(desk, view, each)
            ],
            "offered": buttons(desk, allowed, row),
            "undo": _undo(desk, listing, view, row),
            "related": await _related(desk, listing, detail, view, id),
            "documents": [each for each in await _documents(detail, view, id) if _may_read(desk, view, each)],
            "timeline": [_followed(view, each) for each in await named(view.site.database, moments)],
        }

    return load


async def _documents(detail: Detail, view: View, id: str) -> list[Any]:
    return await view.conn.fetch(detail.documents, id) if detail.documents else []


def _may_read(desk: Desk, view: View, document: Any) -> bool:
    """Return whether the viewer may open the document, and may do the action that it needs, if it names one."""
    listing, _, action = (document.get("action") or "").partition(".")
    if listing and not may_do(desk, view, desk.actions[listing, action]):
        return False
    return _may_open(desk, view, document["path"])


def _may_open(desk: Desk, view: View, path: str | None) -> bool:
    """Return whether a path leads to no list of this desk, or to one that the viewer may see."""
    below = (path or "").removeprefix(f"{desk.path}/")
    listing = desk.listings.get(below.partition("/")[0]) if below != path else None
    return listing is None or sees(desk, view, listing)


def _followed(view: View, moment: Moment) -> Moment:
    """Return the moment without its link if the viewer may not see what is behind it: the pages of the engine."""
    return (
        moment
        if view.may("viewer") or not (moment.path or "").startswith("/dashboard/")
        else moment._replace(path=None)
    )


def _undo(desk: Desk, listing: Listing, view: View, row: Any) -> str:
    """Return the path that takes back what the viewer has just done, or nothing."""
    done = desk.actions.get((listing.name, view.text("done")))
    if done is None or not (done.undo or done.load):
        return ""
    undo = desk.actions.get((listing.name, done.undo)) if done.undo else done
    if undo is None or not may_do(desk, view, undo) or not row[f"_may_{undo.name}"]:
        return ""
    return f"{desk.path}/{listing.name}/do/{undo.name}?ids={row['_id']}" + ("" if done.undo else "&undo=1")


async def _related(desk: Desk, listing: Listing, detail: Detail, view: View, id: str) -> list[dict[str, Any]]:
    related: list[dict[str, Any]] = []
    for each in detail.related:
        if not sees(desk, view, each.listing):
            continue
        asked = ask(
            each.listing, {listing.name: id}, parents={listing.name: Parent(each.by, each.type or listing.id_type)}
        )
        rows = await read(reader_of(view), each.listing, asked, limit=SHOWN_RELATED)
        path = f"{desk.path}/{each.listing.name}?{listing.name}={id}"
        related.append(
            {"listing": each.listing, "rows": rows.rows, "more": rows.next, "path": path, "without": each.without}
        )
    return related
