"""The page that rehearses one event or job: what its handler would do now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from onceward.db import DatabaseError
from onceward.rehearsal.errors import RehearsalError, UnknownWork
from onceward.rehearsal.preview import Previews
from onceward.web.dashboard.contribution import Pages
from onceward.web.dashboard.page import Missing, Page, View


async def load(view: View) -> dict[str, Any]:
    """Run the handler in a transaction that is rolled back, and load what it would cause."""
    id = view.number("id")
    if id is None:
        raise Missing(f"there is no event or job {view.text('id')}")
    # What a member may not see does not exist for this query either.
    is_event = await view.conn.fetchval("select exists (select from onceward.webhook_events where seq = $1)", id)
    loaded: dict[str, Any] = {
        "title": f"Rehearse {'event' if is_event else 'job'} {id}",
        "id": id,
        "kind": "event" if is_event else "job",
        "paths": view.site.contributed.paths,
    }
    try:
        rehearsal = await view.site.context.part(Previews).of([id], organization=view.organization)
    except UnknownWork as error:
        raise Missing(str(error)) from None
    except (RehearsalError, DatabaseError) as error:
        return {**loaded, "not_rehearsed": str(error)}
    return {**loaded, "rehearsal": rehearsal}


PAGES = Pages(
    pages=(
        Page(
            name="rehearsal",
            path="/dashboard/rehearse/{id}",
            title="Rehearse",
            load=load,
            template="rehearsal.html",
            scope="operator",
            every_s=None,
        ),
    ),
    templates=(Path(__file__).parent,),
)
