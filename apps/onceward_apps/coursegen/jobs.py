"""The job that generates a course."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

from onceward import Engine, Job, JobEnd, LimitReached, Permanent, Snooze, Tx
from onceward.limits import GLOBAL, Limit, reserve
from onceward.telemetry import bind, get_logger
from onceward.trust import record_metric
from onceward_apps.coursegen import completion, model, texts
from onceward_apps.coursegen.app import CoursegenSettings, app, tiers
from onceward_apps.coursegen.errors import GenerationFailed, Halted
from onceward_apps.coursegen.generation import Generation
from onceward_apps.coursegen.steps import load_steps
from onceward_apps.coursegen.store import calls, courses

SLOT_WAIT_S = 15.0
"""How often a job that was enqueued without a slot asks for one."""

RECOVERED = (
    "select exists (select from onceward.system_metrics where event_type = 'orphaned_job_recovery' and job_id = $1)"
)

log = get_logger("onceward_apps.coursegen")


@app.job(
    name="coursegen.generate",
    queue="coursegen",
    outside=True,
    max_attempts=3,
    retry=[5, 30],
    timeout=None,
    critical=False,
)
async def generate(
    job: Job,
    *,
    course_id: UUID,
    user_id: UUID | None = None,
    tier: str | None = None,
    request_id: str | None = None,
) -> dict[str, Any]:
    """Generate a course, step by step. A repeated run continues after the last checkpoint.

    Other programs may enqueue it by SQL with `course_id` alone; such a job takes its slot, or waits for one, here.
    """
    with bind(requestId=request_id, userId=user_id, tier=tier, courseId=course_id, jobId=str(job.id)):
        try:
            generation = await begin(job, course_id)
            with bind(userId=generation.course["user_id"], tier=generation.tier):
                await run(generation)
        except Halted as halted:
            log.info("coursegen.halted", reason=str(halted))
            return {"status": "halted", "reason": str(halted)}
        return {**completion.DONE, "course_id": str(course_id)}


@generate.on_end
async def generation_ended(tx: Tx, end: JobEnd) -> None:
    """End the course in the commit that ends its job and frees its slots, however the job ended.

    A call that is still open belongs to a process that died: nobody continues it, so its cost is counted now.
    """
    course_id = UUID(end.arguments["course_id"])
    course = await courses.lock(tx, course_id)
    await calls.mark_lost(tx, course_id, job_id=end.id)
    if course is not None and course["job_id"] == end.id:
        await completion.end_by_outcome(tx, course, end.outcome, reason=end.reason, error=end.error, result=end.result)


async def begin(job: Job, course_id: UUID) -> Generation:
    """Start an attempt: check the course, hold a slot, recover the first step, and mark interrupted calls as lost."""
    if job.organization is None:
        raise Permanent("the job has no organization: set onceward.organization before onceward.enqueue")
    recovered = False
    async with job.transaction(fenced=True) as tx:
        engine: Engine = tx.engine
        course = await _taken_over(tx, job, course_id)
        if course["status"] == "completed":
            raise Halted("the course is completed")
        tier = await _hold_slot(tx, job, course)
        progress = course["generation_progress"]
        if not model.is_completed(progress, 1):
            recovered = True
            message = texts.text("initialised.by_worker", texts.locale_of(course["language"]))
            metadata = {"recovered_by_worker": True, "job_id": str(job.id)}
            progress = await courses.progress(tx, course_id, 1, "completed", message, metadata=metadata)
        lost = await calls.mark_lost(tx, course_id)
        course = await courses.begin(tx, course_id, job_id=job.id, tier=tier)
    if recovered or model.step_of(progress, 1)["metadata"].get("recovered_by_worker"):
        await _note_recovery(engine, job, course)
    log.info("coursegen.started", attempt=job.attempt, lost_calls=lost, priority=tiers().boost_s(tier))
    return Generation(
        engine=engine,
        job=job,
        course=course,
        tier=tier,
        settings=app.settings(CoursegenSettings),
        progress=dict(progress),
    )


async def _taken_over(tx: Tx, job: Job, course_id: UUID) -> Any:
    """Return the course, locked, if this job may generate it."""
    course = await courses.lock(tx, course_id)
    if course is None:
        raise Halted("the course does not exist")
    if course["job_id"] == job.id:
        if course["status"] == "cancelled":
            raise Halted("the course is cancelled")
        return course
    if course["status"] in model.RUNNING:
        raise Halted(f"job {course['job_id']} generates the course")
    return course


async def _hold_slot(tx: Tx, job: Job, course: Any) -> str:
    """Make sure that this job holds a slot, and return the tier. A job that was admitted by a request holds one already.

    A job that another program enqueued waits for a slot. A replayed job is refused like a new request.
    """
    slots = tiers()
    stored = ((await courses.tier(tx, course["user_id"])) or "").upper()
    admitted = course["job_id"] == job.id
    tier = (
        course["tier"]
        if admitted and course["tier"]
        else stored
        if stored in slots.at_most
        else _smallest(slots.at_most)
    )
    try:
        await reserve(tx, job.id, [slots.limit(f"coursegen:user:{course['user_id']}", tier), Limit(GLOBAL)])
    except LimitReached as reached:
        if admitted:
            raise Permanent(f"no_slot: no free slot: {reached}") from None
        raise Snooze(SLOT_WAIT_S, f"waits for a slot: {reached}") from None
    return tier


def _smallest(tiers: Any) -> str:
    return min(tiers, key=lambda each: tiers[each])


async def _note_recovery(engine: Engine, job: Job, course: Any) -> None:
    """Record the recovery once per job. A crash before this is made up for by the next attempt."""
    if await engine.db.fetchval(RECOVERED, str(job.id)):
        return
    log.warning("coursegen.orphan_recovered")
    await record_metric(
        engine.db,
        "orphaned_job_recovery",
        user_id=course["user_id"],
        subject=str(course["id"]),
        job_id=job.id,
        metadata={"recovery_step": 1},
    )


async def run(generation: Generation) -> None:
    """Do what is left of every step. The course ends with the job, in `generation_ended`."""
    time_left: asyncio.Timeout | None = None
    try:
        async with asyncio.timeout(generation.seconds_left()) as time_left:
            for step in load_steps(generation.settings.steps):
                await step.run(generation)
    except TimeoutError:
        if time_left is None or not time_left.expired():
            raise
        await fail(generation, GenerationFailed("timeout", f"longer than {generation.settings.timeout_s} s"))
    except GenerationFailed as failure:
        await fail(generation, failure)


async def fail(generation: Generation, failure: GenerationFailed) -> None:
    """Let the job fail, and with it the course. No further attempt could succeed."""
    if failure.code == "timeout":
        await record_metric(
            generation.engine.db,
            "worker_timeout",
            user_id=generation.course["user_id"],
            subject=str(generation.course_id),
            job_id=generation.job.id,
            metadata={"timeout_s": generation.settings.timeout_s},
        )
    raise Permanent(f"{failure.code}: {failure}"[:1000]) from failure
