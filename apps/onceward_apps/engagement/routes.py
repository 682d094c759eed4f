"""HTTP under `/api/v1/engagement`: profiles, activity, transactions, opt-outs, and what a person wants to see.

There is no route that starts a run: the schedules do, and `onceward cron run`.
"""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from onceward import Engine, Tx
from onceward.web import Identity, Problem, engine_of, exposed, request_transaction, require
from onceward_apps.engagement import activity
from onceward_apps.engagement.app import app
from onceward_apps.engagement.eligibility import preview
from onceward_apps.engagement.errors import EngagementError, InvalidProfile, UnknownUser
from onceward_apps.engagement.message_queue import send_test
from onceward_apps.engagement.model import Destination
from onceward_apps.engagement.overview import next_runs, overview, returned, user_history
from onceward_apps.engagement.store import views

router = APIRouter(prefix="/api/v1/engagement", tags=["engagement"])

EngineHere = Annotated[Engine, Depends(engine_of)]
Viewer = Annotated[Identity, Depends(require("viewer"))]
Operator = Annotated[Identity, Depends(require("operator"))]
STATUS: dict[type[EngagementError], int] = {UnknownUser: 404, InvalidProfile: 422}
MOST = 5000


class ProfileIn(BaseModel):
    """Fields that are missing keep their value. `last_activity_at` counts for a new user only."""

    whatsapp_jid: str | None = Field(None, min_length=1, max_length=60)
    locale: str | None = Field(None, pattern=r"^[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*$")
    preferred_destination: Destination | None = None
    reengagement_opt_out: bool | None = None
    last_activity_at: datetime | None = None


class ActivityIn(BaseModel):
    user_id: UUID
    at: datetime


class TransactionIn(BaseModel):
    """The same `id` twice is one transaction."""

    id: UUID
    user_id: UUID
    created_at: datetime


class ActivityBatch(BaseModel):
    activity: list[ActivityIn] = Field(min_length=1, max_length=MOST)


class TransactionBatch(BaseModel):
    transactions: list[TransactionIn] = Field(min_length=1, max_length=MOST)


class OptOutIn(BaseModel):
    opted_out: bool = True


class TestIn(BaseModel):
    number: str = Field(min_length=1, max_length=60)
    message: Literal["goodbye", "weekly_review"] = "goodbye"
    locale: str = Field("en", pattern=r"^[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*$")


def acting(engine: Engine, who: Identity) -> AbstractAsyncContextManager[Tx]:
    """Open a transaction for the caller's organization."""
    needed = "this key belongs to no organization: use the key of an organization"
    return request_transaction(engine, who.organization, refusals=EngagementError, problem=problem, needed=needed)


def problem(error: EngagementError) -> Problem:
    return Problem(STATUS.get(type(error), 400), str(error), kind=type(error).__name__)


@router.put("/users/{user_id}")
@exposed("call")
async def save_profile(engine: EngineHere, who: Operator, user_id: UUID, profile: ProfileIn) -> dict[str, Any]:
    """Create or change a user."""
    async with acting(engine, who) as tx:
        values = profile.model_dump()
        return dict(await activity.save_profile(tx, user_id, **values, actor=who.actor))


@router.get("/users/{user_id}")
async def show_user(engine: EngineHere, who: Viewer, user_id: UUID) -> dict[str, Any]:
    """Return a user with the history: why they got a message, why not."""
    async with acting(engine, who) as tx:
        return await user_history(tx, tx.organization, user_id)


@router.post("/users/{user_id}/opt-out")
@exposed("call")
async def set_opt_out(engine: EngineHere, who: Operator, user_id: UUID, requested: OptOutIn) -> dict[str, Any]:
    async with acting(engine, who) as tx:
        changed = await activity.set_opt_out(tx, user_id, requested.opted_out, actor=who.actor)
    return {"user_id": user_id, "opted_out": requested.opted_out, "changed": changed}


@router.post("/activity")
@exposed("call")
async def record_activity(engine: EngineHere, who: Operator, batch: ActivityBatch) -> dict[str, Any]:
    """Record activity. Users become active at once; unknown users are named in the answer."""
    async with acting(engine, who) as tx:
        done = await activity.record_activity(
            tx, [activity.Activity(user_id=each.user_id, at=each.at) for each in batch.activity]
        )
    return asdict(done)


@router.post("/transactions")
@exposed("call")
async def record_transactions(engine: EngineHere, who: Operator, batch: TransactionBatch) -> dict[str, Any]:
    """Record transactions, which are activity too. The same id twice is one transaction."""
    async with acting(engine, who) as tx:
        done = await activity.record_transactions(
            tx,
            [
                activity.Transaction(id=each.id, user_id=each.user_id, created_at=each.created_at)
                for each in batch.transactions
            ],
        )
    return asdict(done)


@router.get("/funnel")
async def funnel(engine: EngineHere, who: Viewer) -> dict[str, Any]:
    """Count the users in each state, with yesterday's moves."""
    async with acting(engine, who) as tx:
        return await overview(tx, tx.organization)


@router.get("/runs")
async def runs(engine: EngineHere, who: Viewer, limit: int = Query(20, ge=1, le=200)) -> dict[str, Any]:
    """List the latest runs that found users of this organization, with their errors, and the next due times."""
    async with acting(engine, who) as tx:
        listed = await views.runs(tx, tx.organization, limit=limit)
        return {"runs": listed, "next": next_runs(await views.now(tx))}


@router.get("/preview")
async def dry_run(
    engine: EngineHere,
    who: Viewer,
    job: Literal["daily", "weekly"] = "daily",
    limit: int = Query(100, ge=1, le=10_000),
) -> dict[str, Any]:
    """List who would get what now, and why. Changes nothing."""
    counts: Counter[str] = Counter()
    users: list[dict[str, Any]] = []
    async with acting(engine, who) as tx:
        assert tx.organization is not None
        async for each in preview(tx, tx.organization, job):
            counts[each.action] += 1
            if len(users) < limit:
                users.append(asdict(each))
    return {"counts": dict(counts), "users": users}


@router.get("/returns")
async def returns(engine: EngineHere, who: Viewer) -> list[dict[str, Any]]:
    """Return the share of users who came back within 14 days, with and without a goodbye."""
    async with acting(engine, who) as tx:
        return await returned(tx, tx.organization)


@router.post("/test-messages", status_code=202)
@exposed("mail")
async def send_test_message(engine: EngineHere, who: Operator, requested: TestIn) -> dict[str, Any]:
    """Send a message with sample data to yourself. It changes no user."""
    async with acting(engine, who) as tx:
        queued = await send_test(tx, requested.message, requested.number, locale=requested.locale, actor=who.actor)
    return {"message_id": queued.id}


app.routes(router)
