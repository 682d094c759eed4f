"""HTTP routes of schedules, for administrators of the instance: list, runs, pause, resume, run now, backfill."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query
from pydantic import BaseModel

from onceward.context import Context
from onceward.engine import Engine
from onceward.schedules import NoSuchSchedule, Schedule, operations
from onceward.trust import Identity
from onceward.web.api import context_of, engine_of
from onceward.web.auth import require
from onceward.web.exposure import ANYTHING, exposed
from onceward.web.fields import Moment, Number, example
from onceward.web.problems import Problem, invalid_request

TheContext = Annotated[Context, Depends(context_of)]
Eng = Annotated[Engine, Depends(engine_of)]
Admin = Annotated[Identity, Depends(require("admin"))]
Name = Annotated[str, Path(min_length=1, max_length=200, examples=["ticketing.expire_holds"])]


class ScheduleRow(BaseModel):
    """A schedule with its last and next run."""

    model_config = {"extra": "allow"}

    name: str
    next_at: datetime | None
    paused_at: datetime | None


class SchedulePaused(BaseModel):
    schedule: str
    paused: bool


class Created(BaseModel):
    runs: list[int]


class PeriodIn(BaseModel):
    """Due times after `since` and up to `until`."""

    model_config = example(since="2031-06-01T00:00:00Z", until="2031-06-02T00:00:00Z")

    since: Moment
    until: Moment


router = APIRouter(prefix="/api/v1/schedules", tags=["schedules"])


@router.get("")
async def list_schedules(engine: Eng, _identity: Admin) -> list[ScheduleRow]:
    """List all schedules with their last and next run."""
    return [ScheduleRow(**row) for row in await operations.overview(engine.db)]


@router.get("/{name}/runs")
async def list_runs(
    engine: Eng,
    _identity: Admin,
    name: Name,
    before: Number | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 20,
) -> list[dict[str, Any]]:
    """Return the runs of a schedule, newest first, each with the items that failed.

    `before` is the last id of the previous page.
    """
    await _require(engine, name)
    return await operations.history(engine.db, name, before=before, limit=limit)


@router.post("/{name}/pause")
@exposed("nothing")
async def pause_schedule(engine: Eng, identity: Admin, name: Name) -> SchedulePaused:
    """Pause a schedule: it gets no new runs until it is resumed. An active run continues."""
    await _require(engine, name)
    async with engine.db.transaction(role="engine") as tx:
        await operations.pause(tx, name, by=identity.actor)
    return SchedulePaused(schedule=name, paused=True)


@router.post("/{name}/resume")
@exposed(*ANYTHING)
async def resume_schedule(engine: Eng, identity: Admin, name: Name) -> SchedulePaused:
    """Resume a schedule from now on. Due times during the pause get no run."""
    await _require(engine, name)
    async with engine.db.transaction(role="engine") as tx:
        await operations.resume(tx, name, by=identity.actor)
    return SchedulePaused(schedule=name, paused=False)


@router.post("/{name}/run", status_code=202)
@exposed(*ANYTHING)
async def run_schedule(context: TheContext, engine: Eng, identity: Admin, name: Name) -> Created:
    """Create a run now; a worker executes it. If the last run failed, the new one continues it."""
    schedule = _declared(context, name)
    async with engine.db.transaction(role="engine") as tx:
        id = await operations.run_now(tx, schedule, by=identity.actor, waker=engine.waker)
    return Created(runs=[id])


@router.post("/{name}/backfill", status_code=202)
@exposed(*ANYTHING)
async def backfill_schedule(context: TheContext, engine: Eng, identity: Admin, name: Name, period: PeriodIn) -> Created:
    """Create runs for past due times that have none, 1000 at most. Workers execute them."""
    if period.until <= period.since:
        raise invalid_request([("body.until", "must be later than since")])
    schedule = _declared(context, name)
    async with engine.db.transaction(role="engine") as tx:
        ids = await operations.backfill(
            tx, schedule, since=period.since, until=period.until, by=identity.actor, waker=engine.waker
        )
    return Created(runs=ids)


def _declared(context: Context, name: str) -> Schedule:
    try:
        return operations.find(context.app.schedules, name)
    except NoSuchSchedule as error:
        raise Problem(404, str(error)) from None


async def _require(engine: Engine, name: str) -> None:
    if await engine.db.fetchval("select 1 from onceward.schedules where name = $1", name) is None:
        raise Problem(404, f"there is no schedule {name!r}; GET /api/v1/schedules lists them")


def routers(_context: Context) -> Sequence[APIRouter]:
    return (router,)
