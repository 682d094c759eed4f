"""Live updates of the dashboard: one live query renders the changing part of any page again.

No triggers watch the tables behind these pages, because these tables have the most writes. Instead, a part is rendered
again after a second, once for all viewers who see the same rows, and sent only if its text has changed.
"""

from __future__ import annotations

import time
from typing import Any

from onceward.live import Caller, Query, QueryDefinition
from onceward.web.dashboard.page import Missing
from onceward.web.dashboard.site import Site

SHARE = 20
"""A part waits at least this many times as long as its rendering took, so it uses a twentieth of a connection."""
LONGEST_S = 10.0
"""A part that is slow to render waits no longer than this: an operator decides by what it shows."""
LONGEST_PARAMETER = 500


def part_query(site: Site) -> QueryDefinition[..., Any]:
    """Return the live query `dashboard.part`, which renders the part of a page for callers who may see the page."""

    def allowed(caller: Caller) -> bool:
        page = site.pages.get(str(caller.arguments.get("page")))
        if page is None or caller.identity is None or not caller.identity.may(page.scope, *page.roles):
            return False
        if caller.arguments.get("variant", "") != page.variant(caller.identity):
            return False
        if caller.organization is None:
            return caller.identity.may("admin")
        return not page.instance

    async def part(
        q: Query, *, page: str, params: dict[str, str], variant: str = "", language: str = "en"
    ) -> dict[str, str]:
        q.ignore(*site.tables)
        shown = site.pages[page]
        began = time.monotonic()
        given = {name: value[:LONGEST_PARAMETER] for name, value in params.items()}
        try:
            html = await site.part(shown, site.view(q, q.organization, given, variant=variant))
        except Missing as missing:
            html = site.render("parts/gone.html", detail=str(missing))
        q.stale_after(max(shown.every_s or 60.0, min(LONGEST_S, SHARE * (time.monotonic() - began))))
        return {"html": site.languages.page(html, language)}

    return QueryDefinition(part, name="dashboard.part", parameter="q", allow=allowed)
