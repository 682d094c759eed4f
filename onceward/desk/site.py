"""The pages of a desk: its home, its lists, the page of each row, and what can be done there."""

from __future__ import annotations

from pathlib import Path

from onceward.desk import action_page, files, home_page, list_page, row_page, run_page, saved_views, staff_notes
from onceward.desk.desk import Desk
from onceward.desk.listing import Listing
from onceward.web.dashboard import Action, Page, Pages, Section
from onceward.web.dashboard.contribution import Extra
from onceward.web.dashboard.page import Loader
from onceward.web.exposure import NOTHING

PAGES = staff_notes.PAGES + saved_views.PAGES + Pages(templates=(Path(__file__).parent / "pages",))
"""What all desks share."""


def desk_pages(desk: Desk) -> Pages:
    """Return everything that a desk adds to the dashboard."""
    everybody = desk.role_names(tuple(role.name for role in desk.roles))
    part = "desk_home" if desk.home is None else desk.home[1]
    pages = [_page(desk, "", desk.path, desk.title, home_page.loader(desk), part, roles=everybody, every_s=5.0)]
    actions: list[Action] = []
    extras: list[Extra] = []
    for listing in desk.listings.values():
        pages += _list_pages(desk, listing)
        path = f"{desk.path}/{listing.name}"
        extras += [
            Extra(f"{path}.csv", files.csv_route(desk, listing)),
            Extra(f"{path}.xlsx", files.xlsx_route(desk, listing)),
        ]
    for (listing_name, name), action in desk.actions.items():
        path = f"{desk.path}/{listing_name}/do/{name}"
        roles = desk.role_names(action.roles)
        extras.append(Extra(path, action_page.ask_route(desk, action)))
        actions.append(
            Action(path=path, run=action_page.run_action(desk, action), causes=action.causes or NOTHING, roles=roles)
        )
    if any(action.in_bulk for action in desk.actions.values()):
        path, load = f"{desk.path}/runs/{{id}}", run_page.loader(desk)
        pages.append(_page(desk, "run", path, "Progress", load, "desk_run", roles=everybody, every_s=1.0))
    return Pages(
        pages=tuple(pages),
        actions=tuple(actions),
        extras=tuple(extras),
        sections=(
            Section(
                desk.name,
                desk.title,
                desk.start,
                desk.key,
                desk.table,
                group=desk.group,
                order=desk.order,
                roles=everybody,
            ),
        ),
        languages=() if desk.languages is None else (desk.languages,),
    )


def _page(
    desk: Desk,
    name: str,
    path: str,
    title: str,
    load: Loader,
    part: str,
    *,
    roles: tuple[str, ...],
    every_s: float | None,
) -> Page:
    return Page(
        name=f"desk-{desk.name}-{name}" if name else f"desk-{desk.name}",
        path=path,
        title=title,
        section=desk.name,
        load=load,
        part=part,
        template="desk_page.html",
        every_s=every_s,
        roles=roles,
        by_role=True,
    )


def _list_pages(desk: Desk, listing: Listing) -> list[Page]:
    roles, path, every_s = desk.role_names(listing.roles), f"{desk.path}/{listing.name}", listing.every_s
    load = list_page.loader(desk, listing)
    pages = [_page(desk, listing.name, path, listing.title, load, "desk_listing", roles=roles, every_s=every_s)]
    if (detail := desk.details.get(listing.name)) is not None:
        load = row_page.loader(desk, listing, detail)
        name, title = f"{listing.name}-row", listing.noun.capitalize()
        pages.append(_page(desk, name, f"{path}/row/{{id}}", title, load, "desk_row", roles=roles, every_s=every_s))
    return pages
