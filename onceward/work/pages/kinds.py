"""The pages that every kind of work has: a list with filters, one page per row, and search by id or unique key."""

from __future__ import annotations

from pathlib import Path

from onceward.desk.saved_views import LISTS
from onceward.feature import NOBODY, OWNERS
from onceward.web.dashboard.contribution import Finder, Hit, Pages
from onceward.web.dashboard.navigation import Section
from onceward.web.dashboard.page import Page, View
from onceward.work.pages.detail_page import cancel_action, detail_loader
from onceward.work.pages.list_files import file_routes
from onceward.work.pages.list_page import list_loader
from onceward.work.pages.listing import Listing

HERE = Path(__file__).parent

BY_UNIQUE_KEY = f"""
select w.id, w.kind from onceward.work w
 where coalesce(w.organization_id, {NOBODY}) = any({OWNERS}) and w.unique_key = $1 and w.dead_reason is null limit 20
"""


def work_pages(kind: Listing, *, key: str, order: int, finders: tuple[Finder, ...] = ()) -> Pages:
    """List and detail pages of a kind of work. `key` is the keyboard shortcut, `order` the place in the menu."""
    path = f"/dashboard/{kind.slug}"
    title = kind.slug.capitalize()
    LISTS[kind.list_name] = path
    return Pages(
        pages=(
            Page(
                name=kind.slug,
                path=path,
                title=title,
                section=kind.slug,
                load=list_loader(kind),
                part="list",
                template="list.html",
                listed_in_search=True,
            ),
            Page(
                name=kind.noun,
                path=f"{path}/{{id}}",
                title=kind.noun.capitalize(),
                section=kind.slug,
                load=detail_loader(kind),
                part="detail",
                template="detail.html",
            ),
        ),
        actions=(cancel_action(kind),),
        extras=file_routes(kind),
        sections=(Section(kind.slug, title, path, key, kind.table, group="Activity", order=order),),
        paths={kind.noun: path},
        finders=finders,
    )


async def find_by_unique_key(view: View, name: str) -> list[Hit]:
    """Find unfinished work of any kind by its unique key."""
    return [Hit(row["kind"], row["id"]) for row in await view.conn.fetch(BY_UNIQUE_KEY, name)]
