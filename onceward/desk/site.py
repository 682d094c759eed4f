"""The pages of a desk: its home, its lists, the page of each row, and what can be done there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from onceward.desk import acting, files
from onceward.desk.cells import cell
from onceward.desk.charts import draw
from onceward.desk.desk import Desk
from onceward.desk.detail import Detail
from onceward.desk.listing import Asked, Listing, Order, ask, count, read, select
from onceward.desk.timeline import named, read_timeline
from onceward.money import format_amount
from onceward.web.dashboard import Action, Missing, Page, Pages, Section, View
from onceward.web.dashboard.contribution import Extra
from onceward.web.dashboard.formats import about, many, number
from onceward.web.exposure import NOTHING

SHOWN_RELATED = 20
VIEWS = "select name, query from onceward.desk_views where listing = $1 order by name limit 50"


def desk_pages(desk: Desk) -> Pages:
    """Return everything that a desk adds to the dashboard."""
    everybody = desk.role_names(tuple(role.name for role in desk.roles))
    pages: list[Page] = [
        Page(
            name=f"desk-{desk.name}",
            path=desk.path,
            title=desk.title,
            section=desk.name,
            load=_home(desk),
            part="desk_home",
            template="desk_page.html",
            every_s=5.0,
            roles=everybody,
        )
    ]
    actions: list[Action] = []
    extras: list[Extra] = []
    for listing in desk.listings.values():
        roles = desk.role_names(listing.roles)
        path = f"{desk.path}/{listing.name}"
        pages.append(
            Page(
                name=f"desk-{desk.name}-{listing.name}",
                path=path,
                title=listing.title,
                section=desk.name,
                roles=roles,
                load=_listing(desk, listing),
                part="desk_listing",
                template="desk_page.html",
                every_s=listing.every_s,
            )
        )
        extras += [
            Extra(f"{path}.csv", files.csv_route(desk, listing)),
            Extra(f"{path}.xlsx", files.xlsx_route(desk, listing)),
        ]
        if (detail := desk.details.get(listing.name)) is not None:
            pages.append(
                Page(
                    name=f"desk-{desk.name}-{listing.name}-row",
                    path=f"{path}/row/{{id}}",
                    title=listing.noun.capitalize(),
                    section=desk.name,
                    load=_detail(desk, listing, detail),
                    part="desk_detail",
                    template="desk_page.html",
                    every_s=listing.every_s,
                    roles=roles,
                )
            )
    for (listing_name, name), action in desk.actions.items():
        path = f"{desk.path}/{listing_name}/do/{name}"
        roles = desk.role_names(action.roles)
        extras.append(Extra(path, acting.ask_route(desk, action)))
        actions.append(
            Action(path=path, run=acting.run_action(desk, action), causes=action.causes or NOTHING, roles=roles)
        )
    if any(action.in_bulk for action in desk.actions.values()):
        pages.append(
            Page(
                name=f"desk-{desk.name}-run",
                path=f"{desk.path}/runs/{{id}}",
                title="Progress",
                section=desk.name,
                load=_run(desk),
                part="desk_run",
                template="desk_page.html",
                every_s=1.0,
                roles=everybody,
            )
        )
    return Pages(
        pages=tuple(pages),
        actions=tuple(actions),
        extras=tuple(extras),
        sections=(Section(desk.name, desk.title, desk.path, desk.key, desk.table, order=desk.order, roles=everybody),),
        templates=(Path(__file__).parent / "pages",),
    )


def _tabs(desk: Desk, here: str) -> list[tuple[str, str, bool]]:
    tabs = [("Home", desk.path, here == "")]
    return tabs + [(each.title, f"{desk.path}/{each.name}", here == each.name) for each in desk.listings.values()]


def _frame(desk: Desk, here: str) -> dict[str, Any]:
    return {"desk": desk, "tabs": _tabs(desk, here), "cell": cell, "many": many}


def _home(desk: Desk) -> Callable[[View], Awaitable[dict[str, Any]]]:
    async def load(view: View) -> dict[str, Any]:
        today = datetime.now(UTC).date()
        figures: list[dict[str, Any]] = []
        for figure in desk.figures:
            value = await view.conn.fetchval(figure.sql) or 0
            path = (
                f"{desk.path}/{figure.listing}" + (f"?{figure.query}" if figure.query else "")
                if figure.listing
                else desk.path
            )
            shown = format_amount(int(value), figure.currency, "en") if figure.kind == "money" else number(float(value))
            warns = figure.warn_above is not None and value > figure.warn_above
            figures.append({"title": figure.title, "value": shown, "path": path, "level": "warn" if warns else ""})
        charts = [await draw(chart, view.conn, today=today) for chart in desk.charts]
        return {**_frame(desk, ""), "title": desk.title, "figures": figures, "charts": charts}

    return load


def _parents(desk: Desk, listing: Listing) -> dict[str, str]:
    """Return the objects by which a list can be limited: those whose page shows it as a tab."""
    return {
        parent: related.by
        for parent, detail in desk.details.items()
        for related in detail.related
        if related.listing is listing
    }


def _listing(desk: Desk, listing: Listing) -> Callable[[View], Awaitable[dict[str, Any]]]:
    parents = _parents(desk, listing)

    async def load(view: View) -> dict[str, Any]:
        asked = ask(listing, view.params, parents=parents)
        rows, following = await read(view.conn, listing, asked, everything=view.everything)
        counted = await count(view.conn, listing, asked)
        shown = (number if counted.exact else about)(counted.rows)
        views = await view.conn.fetch(VIEWS, f"{desk.name}.{listing.name}")
        return {
            **_frame(desk, listing.name),
            "title": listing.title,
            "listing": listing,
            "rows": rows,
            "next": following,
            "counted": f"{shown} {listing.noun}{'' if counted.rows == 1 else 's'}",
            "asked": asked,
            "narrowed": asked.is_narrowed,
            "views": views,
            "everything": view.everything,
            "has_detail": listing.name in desk.details,
            "on_list": desk.actions_of(listing, "list"),
            "on_rows": desk.actions_of(listing, "rows"),
            "filters": [column for column in listing.columns if column.filter],
            "parents": {name: view.text(name) for name in parents if view.text(name)},
        }

    return load


def one_row(listing: Listing, detail: Detail, *, offered: Mapping[str, str]) -> str:
    """Return the statement that reads one row by its id, with the title of its page and which actions it offers."""
    asked = Asked((listing.where, f"{listing.id} = $1::text::{listing.id_type}"), (), Order(None, True), None)
    also = {"_title": detail.title, **{f"_may_{name}": when for name, when in offered.items()}}
    text, _ = select(listing, asked, extra=detail.facts, also=also)
    return text


def _detail(desk: Desk, listing: Listing, detail: Detail) -> Callable[[View], Awaitable[dict[str, Any]]]:
    entity = listing.noun.replace(" ", "_")

    async def load(view: View) -> dict[str, Any]:
        id = view.text("id")
        actions = desk.actions_of(listing, "row", "rows")
        statement = one_row(listing, detail, offered={action.name: action.when for action in actions})
        row = None if not _is_id(listing, id) else await view.conn.fetchrow(statement, id)
        if row is None:
            raise Missing(f"this {listing.noun} does not exist, or belongs to another organization")
        related: list[dict[str, Any]] = []
        for each in detail.related:
            asked = ask(each.listing, {listing.name: id}, parents={listing.name: each.by})
            rows, following = await read(view.conn, each.listing, asked, limit=SHOWN_RELATED)
            path = f"{desk.path}/{each.listing.name}"
            related.append(
                {
                    "listing": each.listing,
                    "rows": rows,
                    "more": following,
                    "path": path,
                    "query": f"{listing.name}={id}",
                }
            )
        moments = await read_timeline(
            view.conn, (entity, *detail.also), id, words=detail.words, further=detail.timeline
        )
        timeline = await named(view.site.database, moments)
        return {
            **_frame(desk, listing.name),
            "title": row["_title"],
            "crumbs": (listing.title, f"{desk.path}/{listing.name}"),
            "listing": listing,
            "detail": detail,
            "row": row,
            "facts": (*listing.columns, *detail.facts),
            "offered": [action for action in actions if row[f"_may_{action.name}"]],
            "related": related,
            "timeline": timeline,
        }

    return load


def _is_id(listing: Listing, text: str) -> bool:
    return acting.is_id(listing, text)


def _run(desk: Desk) -> Callable[[View], Awaitable[dict[str, Any]]]:
    async def load(view: View) -> dict[str, Any]:
        run = await view.conn.fetchrow(
            "select id, action, cardinality(rows) as total, done, succeeded, problems, created_at, ended_at"
            " from onceward.desk_runs where id = $1",
            view.number("id") or 0,
        )
        known = None if run is None else desk.actions.get(tuple(run["action"].split(".")[1:]))
        if run is None or known is None:
            raise Missing("this run does not exist, or belongs to another organization")
        return {
            **_frame(desk, known.listing.name),
            "title": known.title,
            "crumbs": (known.listing.title, f"{desk.path}/{known.listing.name}"),
            "run": run,
            "listing": known.listing,
            "has_detail": known.listing.name in desk.details,
        }

    return load
