"""The audit log: who did what to which thing, and why."""

from __future__ import annotations

from typing import Any, cast

from onceward.db import Transaction
from onceward.trust import list_entries
from onceward.web.dashboard.looking import Looking, Page
from onceward.web.dashboard.picture import path_of
from onceward.web.dashboard.walking import PAGE

HEAD = "select number, sealed_at from onceward.audit_seals order by number desc limit 1"
PENDING = "select count(*) from (select from onceward.audit_pending limit 1001) pending"
LINKED = frozenset({"event", "job", "message", "delivery", "workflow", "work"})


async def load(looking: Looking) -> dict[str, Any]:
    entries = await list_entries(
        cast(Transaction, looking.conn),
        organization=looking.organization,
        action=looking.text("action") or None,
        entity_type=looking.text("entity_type") or None,
        entity_id=looking.text("entity_id") or None,
        before=looking.number("before"),
        limit=PAGE + 1,
    )
    return {
        "title": "Audit log",
        "entries": entries[:PAGE],
        "next": entries[PAGE - 1].id if len(entries) > PAGE else None,
        "head": await looking.conn.fetchrow(HEAD) if looking.everything else None,
        "pending": await looking.conn.fetchval(PENDING) if looking.everything else 0,
        "linked": LINKED,
        "path_of": path_of,
        "filtered": any(looking.text(name) for name in ("action", "entity_type", "entity_id")),
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
