"""Routes over received events: list, show with payload and attempts, replay one or many."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from typing import Annotated, Literal

import asyncpg
from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field, StringConstraints

from onceward.db import Database, Transaction
from onceward.inbox import reading, replay
from onceward.inbox.replay import Filter, Found
from onceward.trust import Identity, transaction_for
from onceward.web.api import database_of
from onceward.web.auth import require
from onceward.web.fields import Moment, Number, Text
from onceward.web.problems import Problem

Db = Annotated[Database, Depends(database_of)]
Viewer = Annotated[Identity, Depends(require("viewer"))]
Operator = Annotated[Identity, Depends(require("operator"))]
Limit = Annotated[int, Query(ge=1, le=500)]
Status = Literal["pending", "processing", "success", "failed", "dead_letter"]
Short = Annotated[Text, StringConstraints(max_length=255)]
Reason = Annotated[Text, StringConstraints(strip_whitespace=True, max_length=1000)]

LOOK_WITHIN_S = 10


@dataclass(frozen=True, slots=True)
class Shown(reading.Known):
    """An event with its payload (null: pruned, or nothing that JSON can hold) and every attempt at it.

    `consequences` is where everything that it caused is found.
    """

    raw_bytes: int | None
    consequences: str


class ReplayOne(BaseModel):
    """`as_new`: a success is run again as a new event that the old one caused."""

    model_config = {"extra": "forbid"}

    reason: Annotated[Reason, StringConstraints(min_length=1)]
    as_new: bool = False


class ReplayMany(BaseModel):
    """Which events, of those that are dead letters or failed; with `unhandled`, of those that had no handler."""

    model_config = {"extra": "forbid"}

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


class Replayed(BaseModel):
    """Numbers of the events that were made due (of a dry run: would be), and why others were left alone."""

    done: list[int]
    skipped: dict[int, str]
    dry_run: bool


def events_router() -> APIRouter:
    """`/api/v1/events`: list, show, replay."""
    router = APIRouter(prefix="/api/v1/events", tags=["inbox: events"])
    _reading(router)
    _replaying(router)
    return router


def _reading(router: APIRouter) -> None:
    @router.get("")
    async def listed(  # pyright: ignore[reportUnusedFunction]
        db: Db,
        identity: Viewer,
        source: Short | None = None,
        type: Short | None = None,
        status: Annotated[list[Status] | None, Query(max_length=5)] = None,
        error: Short | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        before: Number | None = None,
        limit: Limit = 50,
    ) -> list[Found]:
        """Newest first. `before` is the `seq` of the last one of the page before; `status` may be given several times."""
        wanted = Filter(
            source=source,
            type=type,
            statuses=status,
            error=error,
            since=since,
            until=until,
            organization=identity.organization,
        )
        async with _patient(db, identity) as tx:
            return await replay.find(tx, wanted, limit=limit, before=before)

    @router.get("/{event}")
    async def one(db: Db, identity: Viewer, event: Short) -> Shown:  # pyright: ignore[reportUnusedFunction]
        """By its number, its id, or the sender's event id."""
        return _shown(await _found(db, identity, event))


def _replaying(router: APIRouter) -> None:
    @router.post("/replay")
    async def many(db: Db, identity: Operator, wanted: ReplayMany) -> Replayed:  # pyright: ignore[reportUnusedFunction]
        """Have events handled again, oldest first, under the same event id. Each one is in the audit log."""
        if not wanted.reason and not wanted.dry_run:
            raise _unfit("reason", "say why: it goes into the audit log; a dry run needs none")
        statuses = ["success"] if wanted.unhandled or wanted.as_new else ["dead_letter", "failed"]
        fitting = Filter(
            ids=wanted.ids,
            source=wanted.source,
            type=wanted.type,
            statuses=None if wanted.ids else statuses,
            error=wanted.error,
            since=wanted.since,
            until=wanted.until,
            unhandled=True if wanted.unhandled else None,
            organization=identity.organization,
        )
        if fitting.empty:
            raise _unfit("ids", "name what to replay: ids, source, type, error, since or until")
        done = await replay.replay(
            db,
            fitting,
            actor=identity,
            reason=wanted.reason or "dry run",
            limit=wanted.limit,
            as_new=wanted.as_new,
            dry_run=wanted.dry_run,
        )
        return Replayed(done=done.done, skipped=done.skipped, dry_run=wanted.dry_run)

    @router.post("/{event}/replay", status_code=202)
    async def one(db: Db, identity: Operator, event: Short, wanted: ReplayOne) -> Replayed:  # pyright: ignore[reportUnusedFunction]
        """Have one event handled again. 409 says why it is left alone."""
        found = await _found(db, identity, event)
        only = Filter(ids=[found.seq], unhandled=_unhandled(found), organization=identity.organization)
        done = await replay.replay(db, only, actor=identity, reason=wanted.reason, as_new=wanted.as_new)
        if not done.done:
            why = done.skipped.get(found.seq, "it is not there any more")
            raise Problem(409, f"event {found.seq} is not replayed: {why}", title="Not replayed")
        return Replayed(done=done.done, skipped={}, dry_run=False)


@asynccontextmanager
async def _patient(db: Database, identity: Identity) -> AsyncGenerator[Transaction]:
    """Sees what the identity may see. A filter that nothing fits reads all events there are: not for longer than this."""
    try:
        async with transaction_for(db, identity) as tx:
            await tx.execute(f"set local statement_timeout = '{LOOK_WITHIN_S}s'")
            yield tx
    except asyncpg.QueryCanceledError:
        why = f"looking took longer than {LOOK_WITHIN_S} s: narrow it down with source, since or before"
        raise Problem(503, why, headers={"Retry-After": "5"}) from None


async def _found(db: Database, identity: Identity, ref: str) -> reading.Whole:
    async with _patient(db, identity) as tx:
        found = await reading.show(tx, ref, organization=identity.organization)
    if found is None:
        raise Problem(404, f"there is no event {ref!r}")
    return found


def _shown(event: reading.Whole) -> Shown:
    return Shown(
        **{each.name: getattr(event, each.name) for each in fields(reading.Known)},
        raw_bytes=None if event.raw is None else len(event.raw),
        consequences=f"/api/v1/trace/{event.seq}",
    )


def _unhandled(event: reading.Whole) -> bool | None:
    """What nobody handled at the time counts as a success, and is replayed like a failure."""
    return True if event.status == "success" and event.result == "unhandled" else None


def _unfit(field: str, reason: str) -> Problem:
    return Problem(
        422, f"{field}: {reason}", title="Request does not fit", errors=[{"field": f"body.{field}", "reason": reason}]
    )
