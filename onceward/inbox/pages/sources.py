"""The page of sources and rejected requests. It never shows a secret, not even masked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, get_args

from onceward.db import Transaction
from onceward.inbox import sources
from onceward.inbox.source import Mode
from onceward.statements import read_statement, scoped
from onceward.trust import NotFound
from onceward.trust.identity import Identity
from onceward.trust.secrets import secret_box
from onceward.web.dashboard.action import Action, ActionRefused, Done
from onceward.web.dashboard.page import Page, View
from onceward.web.dashboard.site import Site
from onceward.web.exposure import ANYTHING, NOTHING
from onceward.webhooks.detect import advice, detect_capture
from onceward.webhooks.provider import ConfigError
from onceward.webhooks.registry import PROVIDERS

PATH = "/dashboard/sources"
MODES: tuple[Mode, ...] = get_args(Mode)
OVERLAPS = {"a day": timedelta(days=1), "a week": timedelta(days=7), "not at all": timedelta(0)}

MOST_CAPTURED = 200_000

DELETED = "was deleted and accepts no more requests. Its events stay and are handled."
PAUSED = "is paused. It still receives events, but they are not handled."
RESUMED = "was resumed. Parked events are handled in the order of their arrival."

SOURCES = scoped(read_statement("inbox", "list_sources_page"))
BUILT_IN = SOURCES.all.replace("s.origin <> 'builtin'", "s.origin = 'builtin'")
PAGE = 100
REJECTS = """
select at, source, provider, reason, status, bytes, more from onceward.webhook_rejects order by at desc limit 20
"""


async def load(view: View) -> dict[str, Any]:
    settings = view.site.settings
    after = view.text("after")
    rows = await view.conn.fetch(SOURCES.of(view.organization), view.organization, after, PAGE + 1)
    shown, more = rows[:PAGE], len(rows) > PAGE
    if view.everything and not more:  # those that the engine created come last
        shown += await view.conn.fetch(BUILT_IN, None, "", PAGE)
    return {
        "title": "Sources",
        "sources": shown,
        "next": shown[-1]["name"] if more else None,
        "rejects": await view.conn.fetch(REJECTS),
        "base": settings.public_url or "",
        "providers": list(PROVIDERS),
    }


async def _add(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    name, secret = form.get("name", "").strip()[:100], form.get("secret", "").strip()
    mode = form.get("mode", "ack")
    if mode not in MODES:
        raise ActionRefused(f"{mode!r} is not a mode: use one of {', '.join(MODES)}")
    new = sources.NewSource(
        name=name,
        provider=form.get("provider", "")[:100],
        secrets=(secret,) if secret else (),
        organization=identity.organization,
        mode=mode,
        public_url=site.settings.public_url,
    )
    sources.require_name(name, identity, _handled(site))
    async with _engine(site) as tx:
        await sources.add(tx, secret_box(site.settings), new, actor=identity)
    return Done(PATH, f"Source {name} is ready. Enter {site.settings.url}/webhooks/{name} at the sender.")


async def _rotate(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    own, secret = await _own(site, identity, form), form.get("secret", "").strip()
    if not secret:
        raise ActionRefused("secret: enter the new secret as the sender shows it")
    overlap = OVERLAPS.get(form.get("overlap", ""))
    if overlap is None:
        raise ActionRefused(f"overlap: choose one of {', '.join(OVERLAPS)}")
    async with _engine(site) as tx:
        box = secret_box(site.settings)
        live = await sources.rotate(tx, box, str(own.webhook_id), secret, overlap=overlap, actor=identity)
    return Done(PATH, f"Source {own.name} now accepts {len(live)} secrets, including the new one.")


async def _detect(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    """Say who sent a captured request. Neither the request nor the secret is stored."""
    capture, secret = form.get("capture", "")[:MOST_CAPTURED], form.get("secret", "").strip()
    if not capture.strip() or not secret:
        raise ActionRefused(
            "paste the headers, an empty line and the body of the request, and the secret of the sender"
        )
    # A form turns each line break into two characters; a body with others cannot be pasted.
    text = capture.replace("\r\n", "\n").encode()
    try:
        found = await asyncio.to_thread(detect_capture, text, secret, public_url=site.settings.public_url)
    except ConfigError as error:
        raise ActionRefused(str(error)) from None
    return Done(PATH, "; ".join(advice(found)[:3]))


@asynccontextmanager
async def _engine(site: Site) -> AsyncGenerator[Transaction]:
    try:
        async with site.database.transaction(role="engine") as tx:
            yield tx
    except ConfigError as error:
        raise ActionRefused(f"{error.field}: {error}") from None


def _button(change: Callable[..., Awaitable[object]], message: str) -> Callable[..., Awaitable[Done]]:
    """Return an action that applies `change` to the source named in the form and then shows `message`."""

    async def run(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
        own = await _own(site, identity, form)
        async with _engine(site) as tx:
            await change(tx, str(own.webhook_id), actor=identity)
        return Done(PATH, f"Source {own.name} {message}")

    return run


async def _own(site: Site, identity: Identity, form: Mapping[str, str]) -> sources.Listed:
    """Return the source named in the form. Raise an error if this identity may not change it."""
    name = form.get("source", "")[:100]
    async with site.database.acquire() as conn:
        source = await sources.find(conn, name)
    if identity.organization is not None and source.organization_id != identity.organization:
        raise NotFound(f"there is no source {name!r}")
    sources.require_name(source.name, identity, _handled(site))
    return source


def _handled(site: Site) -> frozenset[str]:
    """Return the source and provider names that handlers of this app use."""
    return frozenset(task.partition("/")[0] for task in site.app.handlers)


PAGES = (
    Page(
        name="sources", path=PATH, title="Sources", section="sources", load=load, template="sources.html", every_s=5.0
    ),
)
ACTIONS = (
    Action(path=PATH, causes=NOTHING, run=_add, scope="owner", recent=True),
    Action(path=f"{PATH}/detect", causes=NOTHING, run=_detect),
    Action(path=f"{PATH}/secret", causes=NOTHING, run=_rotate, scope="owner", recent=True),
    Action(path=f"{PATH}/delete", causes=NOTHING, run=_button(sources.delete, DELETED), scope="owner"),
    Action(path=f"{PATH}/pause", causes=NOTHING, run=_button(sources.pause, PAUSED)),
    Action(path=f"{PATH}/resume", causes=ANYTHING, run=_button(sources.resume, RESUMED)),
)
