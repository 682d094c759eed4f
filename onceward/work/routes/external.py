"""HTTP routes for programs in other languages that run jobs and have no database connection."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Depends
from pydantic import AfterValidator, BaseModel, Field

from onceward.engine import Engine
from onceward.trust import Identity
from onceward.web.api import engine_of
from onceward.web.auth import require
from onceward.web.exposure import NOTHING, exposed
from onceward.web.fields import HIGHEST, AnyJson, AtMost, Number, Text, example
from onceward.web.problems import Problem, invalid_request
from onceward.work.external import Caller, ExternalJobs, LeaseLost

Eng = Annotated[Engine, Depends(engine_of)]
Performer = Annotated[Identity, Depends(require("operator", permission="work"))]

LONGEST_WAIT_S = 30.0
LONGEST_LEASE_S = 86_400.0


def _is_lease(text: str) -> str:
    if int(text) > HIGHEST:
        raise ValueError("is not the lease of a claim")
    return text


Lease = Annotated[
    str,
    Field(pattern=r"^[0-9]{1,19}$", description="The lease of the claim, as text."),
    AfterValidator(_is_lease),
]
LeaseS = Annotated[float, Field(ge=1, le=LONGEST_LEASE_S)]


class Claim(BaseModel):
    """`most` jobs of these tasks. Without due work the answer waits for `wait_s` seconds."""

    model_config = {"extra": "forbid", **example(tasks=["resize"], most=1, wait_s=20)}

    tasks: Annotated[list[Annotated[Text, Field(min_length=1, max_length=200)]], AtMost(100)] = Field(min_length=1)
    most: int = Field(1, ge=1, le=100)
    wait_s: float = Field(0, ge=0, le=LONGEST_WAIT_S)
    lease_s: LeaseS | None = Field(None, description="How long the claim lasts; the timeout of the task if omitted.")
    worker: Annotated[Text, Field(max_length=200)] | None = None


class ClaimedJob(BaseModel):
    """`cursor` is the last checkpoint of an earlier attempt. The attempt must end before `expires_at`, or extend it."""

    id: int
    lease: str
    task: str
    args: dict[str, Any]
    attempt: int
    expires_at: datetime
    cursor: Any
    tags: list[str] | None
    organization_id: UUID | None
    caused_by: int | None
    trace: str | None


class ClaimedJobs(BaseModel):
    """The claimed jobs; none if nothing became due."""

    jobs: list[ClaimedJob]


class Heartbeat(BaseModel):
    model_config = {"extra": "forbid", **example(lease="7211", lease_s=60)}

    lease: Lease
    lease_s: LeaseS | None = None


class HeldJob(BaseModel):
    """`cancel`: an operator wants the job to stop, so the program should end its attempt with `fail`."""

    state: Literal["held", "cancel"]


class Checkpoint(BaseModel):
    model_config = {"extra": "forbid", **example(lease="7211", cursor={"page": 3})}

    lease: Lease
    cursor: AnyJson = Field(description="Anything but null.")


class FinishedAttempt(BaseModel):
    model_config = {"extra": "forbid", **example(lease="7211", result={"width": 100})}

    lease: Lease
    result: AnyJson = None


class FailedAttempt(BaseModel):
    """`permanent` ends the job; otherwise it is repeated as its task says, or after `retry_s` seconds."""

    model_config = {"extra": "forbid", **example(lease="7211", error="the image is broken", permanent=True)}

    lease: Lease
    error: Annotated[Text, Field(min_length=1, max_length=4000)]
    permanent: bool = False
    retry_s: float | None = Field(None, ge=0, le=365 * 86400)


class ReleasedAttempt(BaseModel):
    model_config = {"extra": "forbid", **example(lease="7211")}

    lease: Lease


class EndedAttempt(BaseModel):
    """What became of the job: `retry` and `released` run again."""

    outcome: Literal["success", "retry", "dead_letter", "failed", "cancelled", "released"]


router = APIRouter(prefix="/api/v1/external-jobs", tags=["external jobs"])
"""The routes under `/api/v1/external-jobs`."""


@router.post("/claim")
@exposed(*NOTHING)
async def claim_jobs(engine: Eng, identity: Performer, requested: Claim) -> ClaimedJobs:
    """Claim due jobs. Each has a lease, which the calls about it must name."""
    jobs = await _jobs(engine, identity).claim(
        requested.tasks,
        most=requested.most,
        lease_s=requested.lease_s,
        worker=requested.worker,
        wait_s=requested.wait_s,
    )
    return ClaimedJobs(jobs=[ClaimedJob.model_validate({**asdict(each), "lease": str(each.lease)}) for each in jobs])


@router.post("/{job}/heartbeat")
@exposed(*NOTHING)
async def extend_claim(engine: Eng, identity: Performer, job: Number, beat: Heartbeat) -> HeldJob:
    """Extend the claim, counted from now."""
    try:
        state = await _jobs(engine, identity).heartbeat(job, int(beat.lease), beat.lease_s)
    except LeaseLost as error:
        raise _lost(error) from None
    return HeldJob(state="cancel" if state == "cancel" else "held")


@router.post("/{job}/checkpoint", status_code=204)
@exposed(*NOTHING)
async def save_checkpoint(engine: Eng, identity: Performer, job: Number, saved: Checkpoint) -> None:
    """Save how far the job has come. The next attempt gets it as `cursor`."""
    if saved.cursor is None:
        raise invalid_request([("body.cursor", "must not be null")])
    try:
        await _jobs(engine, identity).checkpoint(job, int(saved.lease), saved.cursor)
    except LeaseLost as error:
        raise _lost(error) from None


@router.post("/{job}/finish")
@exposed(*NOTHING)
async def finish_attempt(engine: Eng, identity: Performer, job: Number, done: FinishedAttempt) -> EndedAttempt:
    """End the job with a result."""
    return await _settle(engine, identity, job, done.lease, "success", result=done.result)


@router.post("/{job}/fail")
@exposed(*NOTHING)
async def fail_attempt(engine: Eng, identity: Performer, job: Number, failed: FailedAttempt) -> EndedAttempt:
    """End the attempt with an error."""
    outcome = "permanent" if failed.permanent else "failed"
    return await _settle(engine, identity, job, failed.lease, outcome, error=failed.error, retry_s=failed.retry_s)


@router.post("/{job}/release")
@exposed(*NOTHING)
async def release_attempt(engine: Eng, identity: Performer, job: Number, released: ReleasedAttempt) -> EndedAttempt:
    """Give the job back without counting an attempt, as a program does when it is stopped."""
    return await _settle(engine, identity, job, released.lease, "released", retry_s=0.0)


def _jobs(engine: Engine, identity: Identity) -> ExternalJobs:
    everybody = identity.organization is None and identity.may("admin")
    return ExternalJobs(engine.db, Caller(identity.organization, everybody))


async def _settle(
    engine: Engine,
    identity: Identity,
    job: int,
    lease: str,
    outcome: str,
    *,
    result: Any = None,
    error: str | None = None,
    retry_s: float | None = None,
) -> EndedAttempt:
    jobs = _jobs(engine, identity)
    try:
        ended = await jobs.settle(job, int(lease), outcome, result=result, error=error, retry_s=retry_s)
    except LeaseLost as lost:
        raise _lost(lost) from None
    return EndedAttempt.model_validate({"outcome": ended})


def _lost(error: LeaseLost) -> Problem:
    return Problem(409, f"{error}: the claim expired, or the job has ended; give up this attempt", kind="lease-lost")
