"""The page of the audit log: who did what to which entity, and why."""

from __future__ import annotations

from typing import Any, cast

from onceward.db import Transaction
from onceward.trust.audit import AuditEntry, EntryFilter, search_entries
from onceward.trust.people import names_of
from onceward.web.dashboard.page import Page, View
from onceward.web.dashboard.pagination import PAGE
from onceward.windows import MOST_EXAMINED
from onceward.work.consequences import existing

HEAD = "select number, sealed_at from onceward.audit_seals order by number desc limit 1"
PENDING = "select count(*) from (select from onceward.audit_pending limit 1001) pending"


async def load(view: View) -> dict[str, Any]:
    given = (view.text(name) or None for name in ("action", "entity_type", "entity_id"))
    found = await search_entries(
        cast(Transaction, view.conn),
        EntryFilter(view.organization, *given),
        before=view.number("before"),
        limit=PAGE,
        most=MOST_EXAMINED,
    )
    entries: list[AuditEntry] = found.rows
    causes = {entry.caused_by for entry in entries if entry.caused_by is not None}
    return {
        "title": "Audit log",
        # A cause can be gone, or belong to the instance. Its number is not a link then.
        "shown_causes": await existing(cast(Transaction, view.conn), causes, view.site.traced),
        "names": await names_of(view.site.database, {entry.actor for entry in entries}),
        "entries": entries,
        "next": found.next,
        "unfinished": found.unfinished,
        "head": await view.conn.fetchrow(HEAD) if view.everything else None,
        "pending": await view.conn.fetchval(PENDING) if view.everything else 0,
        "linked": {*view.site.contributed.paths, "work"},
        "path_of": view.site.path_of,
        "filtered": any(view.text(name) for name in ("action", "entity_type", "entity_id")),
    }


PAGES = (
    Page(
        name="audit",
        path="/dashboard/audit",
        title="Audit log",
        section="audit",
        load=load,
        template="audit.html",
        every_s=2.0,
    ),
)
