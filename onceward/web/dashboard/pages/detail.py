"""One piece of work: what it is, every attempt, how long it waited and ran, what caused it and what it caused."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import orjson

from onceward.trust.identity import Identity
from onceward.web.dashboard.acting import Action, Done, Refused, reason_of
from onceward.web.dashboard.kinds import KINDS, Kind
from onceward.web.dashboard.looking import Loader, Looking, Missing, Page
from onceward.web.dashboard.site import Site
from onceward.web.dashboard.tracing import trace_for
from onceward.work import controls
from onceward.workflows import operate
from onceward.workflows.errors import WorkflowState

ATTEMPTS = """
select number, outcome, worker, started_at, finished_at, result, error
  from onceward.attempts where work_id = $1 order by finished_at desc limit 200
"""
STEPS = """
select position, kind, key, name, state, attempts, result, error, due_at, ref, started_at, finished_at
  from onceward.workflow_steps where workflow_id = $1 order by position limit 500
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
        "said",
    ]
)


def loader(kind: Kind) -> Loader:
    async def load(looking: Looking) -> dict[str, Any]:
        id = looking.number("id")
        row = None if id is None else await looking.conn.fetchrow(kind.one(), id)
        if row is None or id is None:
            raise Missing(f"there is no {kind.noun} {looking.text('id')}, or it belongs to another organization")
        found = dict(row)
        attempts = await looking.conn.fetch(ATTEMPTS, id)
        tree = await trace_for(looking.conn, id, most=60)
        return {
            "title": f"{kind.noun.capitalize()} {id}",
            "kind": kind,
            "row": found,
            "payload": _payload(found),
            "facts": {name: value for name, value in found.items() if name not in KNOWN and value is not None},
            "tries": attempts,
            "steps": await looking.conn.fetch(STEPS, id) if kind.noun == "workflow" else [],
            "tree": tree,
            "caused": 0 if tree is None else tree.node.count() - 1,
            "first": attempts[-1] if attempts else None,
            "last": attempts[0] if attempts else None,
        }

    return load


def _payload(found: dict[str, Any]) -> Any:
    text = found.get("text")
    if text is not None:
        with contextlib.suppress(ValueError):
            return orjson.loads(text)
    return found.get("payload")


async def _cancel(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    """Waiting work ends now, running work is asked to stop. Only what the identity can see can be cancelled."""
    kind, id = KINDS.get(form["slug"]), form["id"]
    if kind is None or not id.isdigit():
        raise Missing(f"there is no {form['slug']} {id}")
    reason = reason_of(form)
    if kind.noun == "workflow":
        return await _cancel_workflow(site, identity, int(id), reason)
    async with site.database.transaction(
        role="engine" if identity.organization is None else "app", organization=identity.organization
    ) as tx:
        if await tx.fetchrow(kind.one(), int(id)) is None:
            raise Missing(f"there is no {kind.noun} {id}, or it belongs to another organization")
    said = await controls.cancel(site.database, int(id), actor=identity, reason=reason)
    told = {
        "cancelled": f"{kind.noun.capitalize()} {id} is cancelled.",
        "asked": f"{kind.noun.capitalize()} {id} is running and has been asked to stop.",
        "gone": f"{kind.noun.capitalize()} {id} had ended before.",
    }
    return Done(f"/dashboard/{kind.slug}/{id}", told[said])


async def _cancel_workflow(site: Site, identity: Identity, id: int, reason: str) -> Done:
    """A workflow also undoes what it has done."""
    try:
        said = await operate.cancel(
            site.database, id, actor=identity, reason=reason, organization=identity.organization
        )
    except WorkflowState as error:
        raise Refused(str(error)) from None
    site.engine.waker.wake("workflows")
    told = {"cancelled": "is cancelled", "asked": "has been asked to stop", "compensating": "undoes what it has done"}
    return Done(f"/dashboard/workflows/{id}", f"Workflow {id} {told.get(said, said)}.")


async def _retry_workflow(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    id = form["id"]
    if not id.isdigit() or len(id) > 18:
        raise Missing(f"there is no workflow {id}")
    try:
        await operate.retry(
            site.database, int(id), actor=identity, reason="retried from its page", organization=identity.organization
        )
    except WorkflowState as error:
        raise Refused(str(error)) from None
    site.engine.waker.wake("workflows")
    return Done(f"/dashboard/workflows/{id}", f"Workflow {id} goes on with the steps that failed.")


PAGES = tuple(
    Page(
        name=kind.noun,
        path=f"/dashboard/{slug}/{{id}}",
        title=kind.noun.capitalize(),
        section=slug,
        load=loader(kind),
        part="detail",
        template="detail.html",
    )
    for slug, kind in KINDS.items()
)
ACTIONS = (
    Action(path="/dashboard/{slug}/{id}/cancel", run=_cancel),
    Action(path="/dashboard/workflows/{id}/retry", run=_retry_workflow),
)
