"""The page of one piece of work: attempts, waiting and running time, cause and consequences."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import orjson

from onceward.trust.identity import Identity
from onceward.web.dashboard.action import Action, Done, reason_of
from onceward.web.dashboard.page import Loader, Missing, View
from onceward.web.dashboard.site import Site
from onceward.web.exposure import ANYTHING, NOTHING
from onceward.work import controls
from onceward.work.pages.listing import Listing
from onceward.work.pages.tracing import trace_for

ATTEMPTS = """
select number, outcome, worker, started_at, finished_at, result, error, shared
  from onceward.attempts where work_id = $1 order by number desc, finished_at desc limit 200
"""
KNOWN = frozenset(
    [
        "id",
        "label",
        "about",
        "key",
        "at",
        "organization_id",
        "caused_by",
        "state",
        "attempts",
        "queue",
        "lane",
        "unique_key",
        "crashes",
        "claimed_at",
        "dead_reason",
        "dead_at",
        "cancel",
        "due_at",
        "payload",
        "headers",
        "result",
        "text",
        "error",
        "message",
    ]
)


def detail_loader(kind: Listing) -> Loader:
    async def load(view: View) -> dict[str, Any]:
        id = view.number("id")
        row = None if id is None else await view.conn.fetchrow(kind.one(), id)
        if row is None or id is None:
            raise Missing(f"there is no {kind.noun} {view.text('id')}, or it belongs to another organization")
        details = dict(row)
        attempts = await view.conn.fetch(ATTEMPTS, id)
        tree = await trace_for(view, id, most=60)
        return {
            "title": f"{kind.noun.capitalize()} {id}",
            "kind": kind,
            "row": details,
            "payload": _payload(details),
            "facts": {name: value for name, value in details.items() if name not in KNOWN and value is not None},
            "tries": attempts,
            "steps": await view.conn.fetch(kind.steps, id) if kind.steps else [],
            "buttons": [button for button in kind.buttons if details["state"] in button.states],
            "tree": tree,
            "caused": 0 if tree is None else tree.node.count() - 1,
            "first": attempts[-1] if attempts else None,
            "last": attempts[0] if attempts else None,
        }

    return load


def _payload(details: dict[str, Any]) -> Any:
    text = details.get("text")
    if text is not None:
        with contextlib.suppress(ValueError):
            return orjson.loads(text)
    return details.get("payload")


def cancel_action(kind: Listing) -> Action:
    """Return the cancel action. Waiting work ends at once; the worker of running work stops it."""

    async def cancel(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
        text = form["id"]
        if not text.isdigit() or len(text) > 18:
            raise Missing(f"there is no {kind.noun} {text}")
        id, reason = int(text), reason_of(form)
        if kind.cancel is not None:
            return await kind.cancel(site, identity, id, reason)
        async with site.database.transaction(
            role="engine" if identity.organization is None else "app", organization=identity.organization
        ) as tx:
            if await tx.fetchrow(kind.one(), id) is None:
                raise Missing(f"there is no {kind.noun} {id}, or it belongs to another organization")
        outcome = await controls.cancel(site.database, id, actor=identity, reason=reason)
        messages = {
            "cancelled": f"{kind.noun.capitalize()} {id} is cancelled.",
            "asked": f"{kind.noun.capitalize()} {id} is running; its worker will stop it.",
            "gone": f"{kind.noun.capitalize()} {id} had already ended.",
        }
        return Done(f"/dashboard/{kind.slug}/{id}", messages[outcome])

    # The code of a cancelled workflow may undo what it did, with further effects.
    causes = ANYTHING if kind.slug == "workflows" else NOTHING
    return Action(path=f"/dashboard/{kind.slug}/{{id}}/cancel", causes=causes, run=cancel)
