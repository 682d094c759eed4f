"""The search page: finds an object by its id, key or name, through indexes only."""

from __future__ import annotations

from typing import Any

from onceward.web.dashboard.contribution import Hit
from onceward.web.dashboard.page import Page, View
from onceward.web.dashboard.site import url


async def load(view: View) -> dict[str, Any]:
    q = view.text("q")
    contributed = view.site.contributed
    hits: list[Hit] = []
    if q:
        for find in contributed.finders:
            hits += await find(view, q)
        hits = list(dict.fromkeys(hits))
    if len(hits) == 1:
        return {"to": view.site.path_of(hits[0].kind, hits[0].id)}
    lists = [(page.title.lower(), url(page.path, q=q)) for page in contributed.pages if page.listed_in_search]
    links = [(hit.kind, hit.id, view.site.path_of(hit.kind, hit.id)) for hit in hits]
    return {"title": "Search", "q": q, "hits": links, "lists": lists}


PAGES = (Page(name="search", path="/dashboard/search", title="Search", load=load, every_s=None),)
