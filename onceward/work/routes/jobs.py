"""HTTP routes of jobs: list, show, cancel."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, Field, StringConstraints

from onceward.engine import Engine
from onceward.trust import Identity
from onceward.web.api import engine_of
from onceward.web.auth import require
from onceward.web.exposure import exposed
from onceward.web.fields import Number, Why
from onceward.web.paging import link_next
from onceward.web.problems import Problem
from onceward.windows import MOST_EXAMINED
from onceward.work import controls

Eng = Annotated[Engine, Depends(engine_of)]
Viewer = Annotated[Identity, Depends(require("viewer"))]
Operator = Annotated[Identity, Depends(require("operator"))]


class JobRow(BaseModel):
    id: int
    task: str
    organization_id: UUID | None
    created_at: datetime
    caused_by: int | None
    tags: list[str] | None
    state: str = Field(examples=["pending", "processing", "overdue", "dead_letter", "success"])
    attempts: int | None
    due_at: datetime | None
    queue: str | None
    finished_at: datetime | None


class CancelledJob(BaseModel):
    """`cancelled`: the job was waiting and has ended; `asked`: it runs, and its worker stops it within about a
    second."""

    outcome: Literal["cancelled", "asked"]


router = APIRouter(prefix="/api/v1/jobs", tags=["jobs"])
"""The routes under `/api/v1/jobs`."""


@router.get("")
async def list_jobs(
    engine: Eng,
    request: Request,
    response: Response,
    identity: Viewer,
    task: Annotated[str, StringConstraints(max_length=300)] | None = None,
    before: Number | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> list[JobRow]:
    """List jobs with their state, newest first. `before` is the last id of the previous page.

    A request examines about 8,000 jobs at most. If there may be more matches, the header `Link` has the URL of the
    next page with `rel="next"`; a page can have fewer jobs than `limit`, or none, and still have a next page.
    """
    found = await controls.jobs(
        engine.db, task=task, before=before, organization=identity.organization, limit=limit, most=MOST_EXAMINED
    )
    link_next(request, response, before=found.next)
    return [JobRow(**row) for row in found.rows]


@router.get("/{id}")
async def show_job(engine: Eng, identity: Viewer, id: Number) -> dict[str, Any]:
    """Show one job with its arguments, its state and every attempt."""
    return await _find(engine, identity, id)


@router.post("/{id}/cancel")
@exposed("nothing")
async def cancel_job(engine: Eng, identity: Operator, id: Number, why: Why) -> CancelledJob:
    """Cancel a job. A waiting job ends at once; the worker of a running job cancels its handler."""
    await _find(engine, identity, id)
    outcome = await controls.cancel(engine.db, id, actor=identity, reason=why.reason)
    if outcome not in ("cancelled", "asked"):
        raise Problem(409, f"job {id} is not waiting or running: it is finished or a dead letter")
    return CancelledJob(outcome=outcome)


async def _find(engine: Engine, identity: Identity, id: int) -> dict[str, Any]:
    job = await controls.show(engine.db, id, organization=identity.organization)
    if job is None:
        raise Problem(404, f"there is no job {id}: it never existed, or it was pruned")
    return job
