"""From an id, a key or a name to its page, by index only."""

from __future__ import annotations

import contextlib
from typing import Any
from uuid import UUID

from onceward.web.dashboard.kinds import EVENTS, JOBS, KINDS, MESSAGES, PATHS
from onceward.web.dashboard.looking import Looking, Page
from onceward.web.dashboard.site import url
from onceward.web.dashboard.tracing import trace_for

NOBODY = "00000000-0000-0000-0000-000000000000"
OWNERS = f"array(select o.organization_id from onceward.organizations o) || '{NOBODY}'::uuid"
BY_EVENT_ID = """
select e.seq as id from onceward.webhook_events e
 where e.seq = any(array(select onceward.events_named($1))) order by e.seq desc limit 20
"""
BY_UUID = "select e.seq as id from onceward.webhook_events e where e.id = $1"
BY_UNIQUE_KEY = f"""
select w.id, w.kind from onceward.work w
 where coalesce(w.organization_id, '{NOBODY}') = any({OWNERS}) and w.unique_key = $1 and w.dead_reason is null limit 20
"""
BY_MESSAGE_KEY = f"""
select m.id from onceward.messages m where coalesce(m.organization_id, '{NOBODY}') = any({OWNERS}) and m.key = $1 limit 20
"""


async def load(looking: Looking) -> dict[str, Any]:
    q = looking.text("q")
    hits: list[tuple[str, int]] = []
    if looking.number("q") is not None:
        found = await trace_for(looking.conn, int(q), most=1)
        if found is not None:
            hits.append((found.node.kind, int(q)))
    elif q:
        hits = await _by_key(looking, q)
    if len(hits) == 1:
        kind, id = hits[0]
        return {"to": f"{PATHS[kind]}/{id}" if kind in PATHS else f"/dashboard/consequences/{id}"}
    lists = [(slug, url(f"/dashboard/{slug}", q=q)) for slug, kind in KINDS.items() if looking.has(kind.table)]
    return {"title": "Search", "q": q, "hits": hits, "lists": lists, "paths": PATHS}


async def _by_key(looking: Looking, q: str) -> list[tuple[str, int]]:
    conn = looking.conn
    hits: list[tuple[str, int]] = []
    if looking.has(EVENTS.table):
        hits += [("event", row["id"]) for row in await conn.fetch(BY_EVENT_ID, q)]
        with contextlib.suppress(ValueError):  # not every key is a UUID
            hits += [("event", row["id"]) for row in await conn.fetch(BY_UUID, UUID(q))]
    if looking.has(MESSAGES.table):
        hits += [("message", row["id"]) for row in await conn.fetch(BY_MESSAGE_KEY, q)]
    if looking.has(JOBS.table):
        hits += [(row["kind"], row["id"]) for row in await conn.fetch(BY_UNIQUE_KEY, q)]
    return list(dict.fromkeys(hits))


PAGES = (Page(name="search", path="/dashboard/search", title="Search", load=load, every_s=None),)
