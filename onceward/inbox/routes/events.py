"""HTTP routes for received events: list, show with payload and attempts, replay one or many."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from typing import Annotated, Literal

import asyncpg
from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, Field, StringConstraints

from onceward.db import Database, Transaction
from onceward.inbox import event_details, replay
from onceward.inbox.event_search import EventFilter, FoundEvents, search
from onceward.trust import Identity, transaction_for
from onceward.web.api import database_of
from onceward.web.auth import require
from onceward.web.exposure import ANYTHING, exposed
from onceward.web.fields import Moment, Number, Text, example
from onceward.web.paging import link_next
from onceward.web.problems import Problem, invalid_request
from onceward.windows import MOST_EXAMINED

Db = Annotated[Database, Depends(database_of)]
Viewer = Annotated[Identity, Depends(require("viewer"))]
Replayer = Annotated[Identity, Depends(require("operator", permission="replay"))]
Limit = Annotated[int, Query(ge=1, le=500)]
Status = Literal["pending", "processing", "success", "failed", "dead_letter"]
Short = Annotated[Text, StringConstraints(max_length=255)]
Reason = Annotated[Text, StringConstraints(strip_whitespace=True, max_length=1000)]

LOOK_WITHIN_S = 10


@dataclass(frozen=True, slots=True)
class Shown(event_details.Known):
    """An event with its payload and every attempt. The payload is null if it was pruned or jsonb cannot store it.

    `consequences` is the path of the trace of everything that the event caused.
    """

    raw_bytes: int | None
    consequences: str


class ReplayOne(BaseModel):
    """Replay one event. `as_new` runs a successful event again, as a new event caused by the old one."""

    model_config = {"extra": "forbid", **example(reason="the handler is fixed")}

    reason: Annotated[Reason, StringConstraints(min_length=1)]
    as_new: bool = False


class ReplayMany(BaseModel):
    """Filters on dead letters and failed events. With `unhandled`, on events that had no handler."""

    model_config = {
        "extra": "forbid",
        **example(source="payments-stripe", error="TimeoutError", limit=100, reason="the handler is fixed"),
    }

    ids: list[Number] | None = Field(None, min_length=1, max_length=1000)
    source: Short | None = None
    type: Short | None = None
    error: Short | None = None
    since: Moment | None = None
    until: Moment | None = None
    unhandled: bool = False
    as_new: bool = False
    limit: int = Field(replay.DEFAULT_LIMIT, ge=1, le=1000)
    dry_run: bool = False
    reason: Reason = ""


class ReplayAnswer(BaseModel):
    """The numbers of the replayed events (in a dry run: of those that would be), and why others were skipped."""

    done: list[int]
    skipped: dict[int, str]
    dry_run: bool


router = APIRouter(prefix="/api/v1/events", tags=["inbox: events"])
"""`/api/v1/events`: list, show, replay."""


@router.get("")
async def listed(
    db: Db,
    request: Request,
    response: Response,
    identity: Viewer,
    source: Short | None = None,
    type: Short | None = None,
    status: Annotated[list[Status] | None, Query(max_length=5)] = None,
    error: Short | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    before: Number | None = None,
    limit: Limit = 50,
) -> list[FoundEvents]:
    """List events, newest first. `status` may be repeated.

    A request examines about 8,000 events at most. If there may be more matches, the header `Link` has the URL of the
    next page with `rel="next"`; a page can have fewer events than `limit`, or none, and still have a next page.
    """
    identity.require_source(source)
    criteria = EventFilter(
        source=source,
        type=type,
        statuses=status,
        error=error,
        since=since,
        until=until,
        organization=identity.organization,
    )
    async with _bounded(db, identity) as tx:
        page = await search(tx, criteria, limit=limit, before=before, most=MOST_EXAMINED)
    link_next(request, response, before=page.next)
    return page.events


@router.get("/{event}")
async def one(db: Db, identity: Viewer, event: Short) -> Shown:
    """Show an event by its `seq`, its id, or the sender's event id."""
    return _shown(await _find(db, identity, event))


@router.post("/replay")
@exposed(*ANYTHING)
async def many(db: Db, identity: Replayer, body: ReplayMany) -> ReplayAnswer:
    """Handle events again, oldest first, under the same event id. Each replay is written to the audit log."""
    if not body.reason and not body.dry_run:
        raise invalid_request([("body.reason", "give a reason for the audit log; only a dry run needs none")])
    identity.require_source(body.source)
    statuses = ["success"] if body.unhandled or body.as_new else ["dead_letter", "failed"]
    criteria = EventFilter(
        ids=body.ids,
        source=body.source,
        type=body.type,
        statuses=None if body.ids else statuses,
        error=body.error,
        since=body.since,
        until=body.until,
        unhandled=True if body.unhandled else None,
        organization=identity.organization,
    )
    if criteria.empty:
        raise invalid_request([("body.ids", "give at least one filter: ids, source, type, error, since or until")])
    done = await replay.replay(
        db,
        criteria,
        actor=identity,
        reason=body.reason or "dry run",
        limit=body.limit,
        as_new=body.as_new,
        dry_run=body.dry_run,
    )
    return ReplayAnswer(done=done.done, skipped=done.skipped, dry_run=body.dry_run)


@router.post("/{event}/replay", status_code=202)
@exposed(*ANYTHING)
async def replay_one(db: Db, identity: Replayer, event: Short, body: ReplayOne) -> ReplayAnswer:
    """Handle one event again. 409 says why it was not replayed."""
    shown = await _find(db, identity, event)
    criteria = EventFilter(ids=[shown.seq], unhandled=_unhandled(shown), organization=identity.organization)
    done = await replay.replay(db, criteria, actor=identity, reason=body.reason, as_new=body.as_new)
    if not done.done:
        why = done.skipped.get(shown.seq, "it does not exist any more")
        raise Problem(409, f"event {shown.seq} was not replayed: {why}", title="Not replayed")
    return ReplayAnswer(done=done.done, skipped={}, dry_run=False)


@asynccontextmanager
async def _bounded(db: Database, identity: Identity) -> AsyncGenerator[Transaction]:
    """Open a transaction with the identity's rights and a time limit. Every statement in it has a bound of its own."""
    try:
        async with transaction_for(db, identity) as tx:
            await tx.execute(f"set local statement_timeout = '{LOOK_WITHIN_S}s'")
            yield tx
    except asyncpg.QueryCanceledError:
        why = (
            f"the database needed more than {LOOK_WITHIN_S} s although the search is bounded: it is "
            f"overloaded; try again"
        )
        raise Problem(503, why, headers={"Retry-After": "5"}) from None


async def _find(db: Database, identity: Identity, ref: str) -> event_details.Whole:
    async with _bounded(db, identity) as tx:
        event = await event_details.show(tx, ref, organization=identity.organization)
    if event is None or not identity.may_use_source(event.source):
        raise Problem(404, f"there is no event {ref!r}")
    return event


def _shown(event: event_details.Whole) -> Shown:
    return Shown(
        **{each.name: getattr(event, each.name) for each in fields(event_details.Known)},
        raw_bytes=None if event.raw is None else len(event.raw),
        consequences=f"/api/v1/trace/{event.seq}",
    )


def _unhandled(event: event_details.Whole) -> bool | None:
    """Return True for an event that had no handler: its status is `success`, but it is replayed like a failure."""
    return True if event.status == "success" and event.result == "unhandled" else None
