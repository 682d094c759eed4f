"""HTTP routes of dead letters of every kind: list, count by error, show, replay, discard. Changes are audited."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, Field, StringConstraints

from onceward.engine import Engine
from onceward.trust import Identity
from onceward.web.api import engine_of
from onceward.web.auth import require
from onceward.web.exposure import ANYTHING, exposed
from onceward.web.fields import AtMost, Moment, Number, example
from onceward.web.paging import link_next
from onceward.web.problems import Problem, invalid_request
from onceward.windows import MOST_EXAMINED, MOST_JOINED
from onceward.work import dead_letters
from onceward.work.dead_letters import DeadLetter, DeadLetterFilter

Eng = Annotated[Engine, Depends(engine_of)]
Viewer = Annotated[Identity, Depends(require("viewer"))]
Operator = Annotated[Identity, Depends(require("operator"))]
Replayer = Annotated[Identity, Depends(require("operator", permission="replay"))]
Kind = Literal["event", "job", "message", "delivery", "workflow"]
Short = Annotated[str, StringConstraints(max_length=300)]
Reason = Annotated[str, StringConstraints(max_length=1000, strip_whitespace=True)]
Verb = Literal["replay", "discard"]


class DeadLetterShown(BaseModel):
    """A dead letter. `trace` is the path of its causes and consequences."""

    id: int
    kind: str
    task: str
    queue: str
    organization_id: UUID | None
    attempts: int
    reason: str
    error: dict[str, Any] | None
    dead_at: datetime
    trace: str


class LetterWithHistory(DeadLetterShown):
    """A dead letter with every attempt, oldest first, each with its error and stack."""

    history: list[dict[str, Any]]


class GroupShown(BaseModel):
    count: int
    kind: str
    task: str
    reason: str
    error: str | None
    first_at: datetime
    last_at: datetime


class Selection(BaseModel):
    """Which dead letters to change. At least one filter is required; `dry_run` changes nothing."""

    model_config = {
        "extra": "forbid",
        **example(task="stripe/charge.succeeded", since="2031-06-21T00:00:00Z", reason="the handler is fixed"),
    }

    ids: Annotated[list[Number] | None, AtMost(1000)] = None
    kind: Kind | None = None
    task: Short | None = None
    provider: Short | None = None
    dead_reason: Short | None = None
    error: Short | None = None
    since: Moment | None = None
    until: Moment | None = None
    limit: int = Field(dead_letters.DEFAULT_LIMIT, ge=1, le=1000)
    dry_run: bool = False
    reason: Reason = ""


class RequiredReason(BaseModel):
    model_config = example(reason="the payment service is available again")

    reason: Reason = Field(min_length=1)


class ActedAnswer(BaseModel):
    """The ids of the changed dead letters (in a dry run: of those that would be changed), and why others were
    skipped."""

    done: list[int]
    skipped: dict[int, str]
    dry_run: bool


router = APIRouter(prefix="/api/v1/dead-letters", tags=["dead letters"])
"""The routes under `/api/v1/dead-letters`."""


@router.get("")
async def list_dead_letters(
    engine: Eng,
    request: Request,
    response: Response,
    identity: Viewer,
    kind: Kind | None = None,
    task: Short | None = None,
    provider: Short | None = None,
    dead_reason: Short | None = None,
    error: Short | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    before: Number | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> list[DeadLetterShown]:
    """List dead letters of every kind, newest first. `before` is the last id of the previous page.

    A request examines about 8,000 dead letters at most, and 400 with the filter `error`. If there may be more matches,
    the header `Link` has the URL of the next page with `rel="next"`; a page can have fewer dead letters than `limit`,
    or none, and still have a next page.
    """
    criteria = DeadLetterFilter(
        kind=kind,
        task=task,
        provider=provider,
        reason=dead_reason,
        error=error,
        since=since,
        until=until,
        organization=identity.organization,
    )
    most = MOST_EXAMINED if error is None else MOST_JOINED
    found = await dead_letters.search(engine.db, criteria, limit=limit, before=before, most=most)
    link_next(request, response, before=found.next)
    return [_shown(each) for each in found.letters]


@router.get("/groups")
async def count_dead_letters(engine: Eng, identity: Viewer) -> list[GroupShown]:
    """Count the newest 500 dead letters by task, reason and error, the largest group first."""
    groups = await dead_letters.groups(engine.db, organization=identity.organization, most=dead_letters.GROUPED)
    return [GroupShown.model_validate(group) for group in groups]


@router.get("/{id}")
async def show_dead_letter(engine: Eng, identity: Viewer, id: Number) -> LetterWithHistory:
    """Show one dead letter with every attempt."""
    letter = await _find(engine, identity, id)
    return LetterWithHistory(**_shown(letter).model_dump(), history=await dead_letters.history(engine.db, letter.id))


@router.post("/replay")
@exposed(*ANYTHING)
async def replay_dead_letters(engine: Eng, identity: Replayer, body: Selection) -> ActedAnswer:
    """Make dead letters due again. They keep their ids, so committed effects do not happen twice."""
    return await _act(engine, identity, "replay", body)


@router.post("/discard")
@exposed("nothing")
async def discard_dead_letters(engine: Eng, identity: Operator, body: Selection) -> ActedAnswer:
    """Remove dead letters from the list for good."""
    return await _act(engine, identity, "discard", body)


@router.post("/{id}/replay")
@exposed(*ANYTHING)
async def replay_dead_letter(engine: Eng, identity: Replayer, id: Number, why: RequiredReason) -> ActedAnswer:
    """Make one dead letter due again. 409 says why it was not replayed."""
    return await _act_on_one(engine, identity, "replay", id, why.reason)


@router.post("/{id}/discard")
@exposed("nothing")
async def discard_dead_letter(engine: Eng, identity: Operator, id: Number, why: RequiredReason) -> ActedAnswer:
    """Remove one dead letter from the list for good."""
    return await _act_on_one(engine, identity, "discard", id, why.reason)


async def _act(engine: Engine, identity: Identity, verb: Verb, body: Selection) -> ActedAnswer:
    criteria = DeadLetterFilter(
        ids=body.ids,
        kind=body.kind,
        task=body.task,
        provider=body.provider,
        reason=body.dead_reason,
        error=body.error,
        since=body.since,
        until=body.until,
        organization=identity.organization,
    )
    if replace(criteria, organization=None).empty:
        filters = "ids, kind, task, provider, dead_reason, error, since or until"
        raise invalid_request([("body.ids", f"give at least one filter: {filters}")])
    if body.dry_run:
        letters = await dead_letters.find(engine.db, criteria, limit=body.limit)
        return ActedAnswer(done=[letter.id for letter in letters], skipped={}, dry_run=True)
    if not body.reason:
        raise invalid_request([("body.reason", "give a reason for the audit log; only a dry run needs none")])
    return await _change(engine, identity, verb, criteria, body.reason, body.limit)


async def _act_on_one(engine: Engine, identity: Identity, verb: Verb, id: int, reason: str) -> ActedAnswer:
    letter = await _find(engine, identity, id)
    criteria = DeadLetterFilter(ids=[letter.id], organization=identity.organization)
    acted = await _change(engine, identity, verb, criteria, reason, 1)
    if not acted.done:
        why = acted.skipped.get(id, "it is no longer a dead letter")
        raise Problem(409, f"dead letter {id} was not changed ({verb}): {why}")
    return acted


async def _change(
    engine: Engine, identity: Identity, verb: Verb, criteria: DeadLetterFilter, reason: str, limit: int
) -> ActedAnswer:
    change = dead_letters.replay if verb == "replay" else dead_letters.discard
    queues = {each.queue for each in await dead_letters.find(engine.db, criteria, limit=limit)}
    acted = await change(engine.db, criteria, actor=identity, reason=reason, limit=limit)
    for queue in queues:
        engine.waker.wake(queue)
    return ActedAnswer(done=acted.done, skipped=acted.skipped, dry_run=False)


async def _find(engine: Engine, identity: Identity, id: int) -> DeadLetter:
    letters = await dead_letters.find(
        engine.db, DeadLetterFilter(ids=[id], organization=identity.organization), limit=1
    )
    if not letters:
        raise Problem(404, f"there is no dead letter {id}; GET /api/v1/trace/{id} shows the state of the work")
    return letters[0]


def _shown(letter: DeadLetter) -> DeadLetterShown:
    return DeadLetterShown(
        id=letter.id,
        kind=letter.kind,
        task=letter.task,
        queue=letter.queue,
        organization_id=letter.organization_id,
        attempts=letter.attempts,
        reason=letter.reason,
        error=letter.error,
        dead_at=letter.dead_at,
        trace=f"/api/v1/trace/{letter.id}",
    )
