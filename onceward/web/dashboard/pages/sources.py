"""Sources: who may send us webhooks, and what was turned away. Secrets are never shown, not even covered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onceward.inbox import sources
from onceward.trust import NotFound
from onceward.trust.identity import Identity
from onceward.web.dashboard.acting import Action, Done
from onceward.web.dashboard.looking import Looking, Page
from onceward.web.dashboard.site import Site

SOURCES = """
select s.webhook_id, s.name, s.provider, s.mode, s.organization_id, s.ordering, s.rate_per_s, s.max_body_bytes, s.retention_days,
       s.origin, s.paused_at, s.created_at
  from onceward.sources s where s.deleted_at is null order by s.origin = 'builtin', s.name limit 500
"""
REJECTS = """
select at, source, provider, reason, status, bytes, more from onceward.webhook_rejects order by at desc limit 20
"""


async def load(looking: Looking) -> dict[str, Any]:
    settings = looking.site.settings
    return {
        "title": "Sources",
        "sources": await looking.conn.fetch(SOURCES),
        "rejects": await looking.conn.fetch(REJECTS),
        "base": settings.public_url or "",
    }


async def _pause(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    name = await _own(site, identity, form)
    async with site.database.transaction(role="engine") as tx:
        await sources.pause(tx, name, actor=identity)
    return Done("/dashboard/sources", f"Source {name} is paused: it goes on receiving, and nothing is handled.")


async def _resume(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    name = await _own(site, identity, form)
    async with site.database.transaction(role="engine") as tx:
        await sources.resume(tx, name, actor=identity)
    return Done("/dashboard/sources", f"Source {name} goes on; what was parked is handled in the order it arrived.")


async def _own(site: Site, identity: Identity, form: Mapping[str, str]) -> str:
    """The name of a source that is this identity's to change."""
    name = form.get("source", "")[:100]
    async with site.database.acquire() as conn:
        found = await sources.find(conn, name)
    if identity.organization is not None and found.organization_id != identity.organization:
        raise NotFound(f"there is no source {name!r}")
    return found.name


PAGES = (Page(name="sources", path="/dashboard/sources", title="Sources", section="sources", load=load, every_s=5.0),)
ACTIONS = (
    Action(path="/dashboard/sources/pause", run=_pause),
    Action(path="/dashboard/sources/resume", run=_resume),
)
