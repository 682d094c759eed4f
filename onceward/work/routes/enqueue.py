"""HTTP routes that enqueue jobs, and the list of what programs may enqueue or start, with its schemas."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Response
from pydantic import BaseModel, Field

from onceward.engine import Engine
from onceward.trust import Identity
from onceward.web.api import engine_of
from onceward.web.auth import require
from onceward.web.exposure import ANYTHING, exposed
from onceward.web.fields import AtMost, Json, Moment, Text, example
from onceward.web.problems import invalid_request
from onceward.work import Enqueued
from onceward.work.job_task import BoundJob, ConfiguredJob
from onceward.work.offered import argument_errors, find_offered, not_offered, offered_tasks

Eng = Annotated[Engine, Depends(engine_of)]
Viewer = Annotated[Identity, Depends(require("viewer", permission="enqueue"))]
Producer = Annotated[Identity, Depends(require("operator", permission="enqueue"))]

MOST_JOBS = 1000
LONGEST_DELAY_S = 10 * 366 * 86400

Key = Annotated[Text, Field(min_length=1, max_length=500)]


class NewJob(BaseModel):
    """A job to enqueue. `args` are checked against the schema of the task (`GET /api/v1/tasks`)."""

    model_config = {"extra": "forbid", **example(task="pack", args={"order": 7}, unique_key="order:7")}

    task: str = Field(min_length=1, max_length=200)
    args: Json = {}
    run_at: Moment | None = Field(None, description="Not before this time. Not together with delay_s.")
    delay_s: float | None = Field(None, ge=0, le=LONGEST_DELAY_S)
    unique_key: Key | None = Field(None, description="One unfinished job with this key; the first one is returned.")
    lane: Key | None = Field(
        None, description="Jobs of the organization with this key run one at a time, in their order."
    )
    fair_key: Key | None = None
    tags: Annotated[list[Annotated[Text, Field(max_length=200)]], AtMost(20)] = []
    max_attempts: int | None = Field(None, ge=1, le=1000)


class NewJobs(BaseModel):
    """Jobs to enqueue, all or none."""

    model_config = {"extra": "forbid", **example(jobs=[{"task": "pack", "args": {"order": 7}}])}

    jobs: Annotated[list[NewJob], AtMost(MOST_JOBS)] = Field(min_length=1)


class EnqueuedJob(BaseModel):
    """`duplicate`: a job with the same unique key existed already, and nothing was enqueued."""

    id: int
    duplicate: bool


class EnqueuedJobs(BaseModel):
    """One entry for each job, in the order of the request."""

    jobs: list[EnqueuedJob]


class OfferedTask(BaseModel):
    """What programs may enqueue or start. `result` is the schema of the result, or null if it has no declared type."""

    name: str
    kind: Literal["job", "workflow"]
    description: str
    args: dict[str, Any]
    result: dict[str, Any] | None


router = APIRouter(prefix="/api/v1", tags=["jobs"])
"""The routes that cause jobs."""


@router.get("/tasks")
async def list_tasks(engine: Eng, _identity: Viewer) -> list[OfferedTask]:
    """List the jobs and workflows for programs, with the schemas of arguments and results."""
    return [
        OfferedTask(
            name=each.name,
            kind=each.kind,
            description=each.description,
            args=dict(each.args),
            result=None if each.result is None else dict(each.result),
        )
        for each in offered_tasks(engine.registry)
    ]


@router.post(
    "/jobs",
    status_code=201,
    responses={200: {"model": EnqueuedJob, "description": "The unique key is that of an unfinished job: that job."}},
)
@exposed(*ANYTHING)
async def enqueue_job(engine: Eng, identity: Producer, new: NewJob, response: Response) -> EnqueuedJob:
    """Enqueue a job. With the unique key of an unfinished job, that job is returned with status 200."""
    call = _call(engine, identity, new, "body")
    async with engine.transaction(organization=identity.organization) as tx:
        done: Enqueued[Any] = await tx.enqueue(call.job, **call.arguments)
    if done.duplicate:
        response.status_code = 200
    return EnqueuedJob(id=done.id, duplicate=done.duplicate)


@router.post("/jobs/many", status_code=201)
@exposed(*ANYTHING)
async def enqueue_jobs(engine: Eng, identity: Producer, new: NewJobs) -> EnqueuedJobs:
    """Enqueue many jobs in one transaction: all of them or, if one is not valid, none."""
    calls = [_call(engine, identity, each, f"body.jobs.{n}") for n, each in enumerate(new.jobs)]
    async with engine.transaction(organization=identity.organization) as tx:
        done = await tx.enqueue_many(calls)
    return EnqueuedJobs(jobs=[EnqueuedJob(id=each.id, duplicate=each.duplicate) for each in done])


def _call(engine: Engine, identity: Identity, new: NewJob, where: str) -> BoundJob[Any]:
    """Return the checked job with its options. Errors name the field."""
    job: ConfiguredJob[..., Any] | None = find_offered(engine.registry, new.task, "job")
    if job is None:
        raise invalid_request([(f"{where}.task", not_offered(engine.registry, new.task, "job"))])
    if errors := argument_errors(job, new.args, f"{where}.args"):
        raise invalid_request(errors)
    if new.run_at is not None and new.delay_s is not None:
        raise invalid_request([(f"{where}.delay_s", "give run_at or delay_s, not both")])
    if new.run_at is not None:
        job = job.schedule_at(new.run_at)
    elif new.delay_s is not None:
        job = job.schedule_in(seconds=new.delay_s)
    if new.unique_key is not None:
        job = job.unique(new.unique_key)
    if new.lane is not None:
        # With its organization: otherwise a key of one organization could block the lanes of another.
        job = job.in_order(new.lane if identity.organization is None else f"{identity.organization}:{new.lane}")
    if new.fair_key is not None:
        job = job.fair_by(new.fair_key)
    if new.tags:
        job = job.tagged(*new.tags)
    if new.max_attempts is not None:
        job = job.max_attempts(new.max_attempts)
    return BoundJob(job, new.args)
