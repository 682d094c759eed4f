"""HTTP routes of queues and workers, for administrators of the instance: list, pause, resume."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path
from pydantic import BaseModel

from onceward.engine import Engine
from onceward.trust import Identity
from onceward.web.api import engine_of
from onceward.web.auth import require
from onceward.web.exposure import ANYTHING, exposed
from onceward.web.fields import Why
from onceward.work import controls

Eng = Annotated[Engine, Depends(engine_of)]
Admin = Annotated[Identity, Depends(require("admin"))]
QueueName = Annotated[str, Path(min_length=1, max_length=200, examples=["default"])]


class Queue(BaseModel):
    """The depth of a queue, and the age of its oldest due work.

    Numbers are exact up to 10,000; `more` says if one is cut.
    """

    queue: str
    due: int
    later: int
    running: int
    dead: int
    oldest_due_s: float | None
    more: bool
    paused_at: datetime | None
    paused_by: str | None


class QueuePaused(BaseModel):
    queue: str
    paused: bool


router = APIRouter(prefix="/api/v1", tags=["queues"])
"""The routes under `/api/v1/queues` and `/api/v1/workers`."""


@router.get("/queues")
async def list_queues(engine: Eng, _identity: Admin) -> list[Queue]:
    """List queues with the number of due, later, running and dead work items."""
    return [Queue(**row) for row in await controls.queues(engine.db)]


@router.post("/queues/{name}/pause")
@exposed("nothing")
async def pause_queue(engine: Eng, identity: Admin, name: QueueName, why: Why) -> QueuePaused:
    """Stop claiming from a queue on all nodes. Running work finishes."""
    await controls.pause(engine.db, name, actor=identity, reason=why.reason)
    return QueuePaused(queue=name, paused=True)


@router.post("/queues/{name}/resume")
@exposed(*ANYTHING)
async def resume_queue(engine: Eng, identity: Admin, name: QueueName) -> QueuePaused:
    """Claim from a paused queue again. A queue that is not paused stays as it is."""
    await controls.resume(engine.db, name, actor=identity)
    engine.waker.wake(name)
    return QueuePaused(queue=name, paused=False)


@router.get("/workers")
async def list_workers(engine: Eng, _identity: Admin) -> list[dict[str, Any]]:
    """List workers with their version, queues, claimed rows and heartbeat."""
    return await controls.workers(engine.db)
