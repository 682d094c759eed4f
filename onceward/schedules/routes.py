"""HTTP routes of schedules, for administrators of the instance: list, runs, pause, resume, run now, backfill."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query
from pydantic import BaseModel

from onceward.app import Onceward
from onceward.context import Context
from onceward.engine import Engine
from onceward.schedules import NoSuchSchedule, Schedule, operations
from onceward.trust import Identity
from onceward.web.api import engine_of
from onceward.web.auth import require
from onceward.web.exposure import ANYTHING, exposed
from onceward.web.fields import Moment, Number, example
from onceward.web.problems import Problem, invalid_request

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


def schedules_router(app: Onceward) -> APIRouter:
    """Return the routes under `/api/v1/schedules`."""
    router = APIRouter(prefix="/api/v1/schedules", tags=["schedules"])
    _reading(router)
    _changing(router)
    _running(router, app)
    return router


def _reading(router: APIRouter) -> None:
    @router.get("")
    async def list_schedules(engine: Eng, _identity: Admin) -> list[ScheduleRow]:  # pyright: ignore[reportUnusedFunction]
        """List all schedules with their last and next run."""
        return [ScheduleRow(**row) for row in await operations.overview(engine.db)]

    @router.get("/{name}/runs")
    async def list_runs(  # pyright: ignore[reportUnusedFunction]
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


def _changing(router: APIRouter) -> None:
    @router.post("/{name}/pause")
    @exposed("nothing")
    async def pause_schedule(engine: Eng, identity: Admin, name: Name) -> SchedulePaused:  # pyright: ignore[reportUnusedFunction]
        """Pause a schedule: it gets no new runs until it is resumed. An active run continues."""
        await _require(engine, name)
        async with engine.db.transaction(role="engine") as tx:
            await operations.pause(tx, name, by=identity.actor)
        return SchedulePaused(schedule=name, paused=True)

    @router.post("/{name}/resume")
    @exposed(*ANYTHING)
    async def resume_schedule(engine: Eng, identity: Admin, name: Name) -> SchedulePaused:  # pyright: ignore[reportUnusedFunction]
        """Resume a schedule from now on. Due times during the pause get no run."""
        await _require(engine, name)
        async with engine.db.transaction(role="engine") as tx:
            await operations.resume(tx, name, by=identity.actor)
        return SchedulePaused(schedule=name, paused=False)


def _running(router: APIRouter, app: Onceward) -> None:
    @router.post("/{name}/run", status_code=202)
    @exposed(*ANYTHING)
    async def run_schedule(engine: Eng, identity: Admin, name: Name) -> Created:  # pyright: ignore[reportUnusedFunction]
        """Create a run now; a worker executes it. If the last run failed, the new one continues it."""
        schedule = _declared(app, name)
        async with engine.db.transaction(role="engine") as tx:
            id = await operations.run_now(tx, schedule, by=identity.actor, waker=engine.waker)
        return Created(runs=[id])

    @router.post("/{name}/backfill", status_code=202)
    @exposed(*ANYTHING)
    async def backfill_schedule(engine: Eng, identity: Admin, name: Name, period: PeriodIn) -> Created:  # pyright: ignore[reportUnusedFunction]
        """Create runs for past due times that have none, 1000 at most. Workers execute them."""
        if period.until <= period.since:
            raise invalid_request([("body.until", "must be later than since")])
        schedule = _declared(app, name)
        async with engine.db.transaction(role="engine") as tx:
            ids = await operations.backfill(
                tx, schedule, since=period.since, until=period.until, by=identity.actor, waker=engine.waker
            )
        return Created(runs=ids)


def _declared(app: Onceward, name: str) -> Schedule:
    try:
        return operations.find(app.schedules, name)
    except NoSuchSchedule as error:
        raise Problem(404, str(error)) from None


async def _require(engine: Engine, name: str) -> None:
    if await engine.db.fetchval("select 1 from onceward.schedules where name = $1", name) is None:
        raise Problem(404, f"there is no schedule {name!r}; GET /api/v1/schedules lists them")


def routers(context: Context) -> Sequence[APIRouter]:
    return (schedules_router(context.app),)
