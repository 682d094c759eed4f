"""The job that generates a course."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

from onceward import Engine, Job, JobEnd, LimitReached, Permanent, Retry, Snooze, Tx
from onceward.limits import reserve
from onceward.telemetry import bind, get_logger
from onceward.trust import record_metric
from onceward_apps.coursegen import completion, line, model, texts
from onceward_apps.coursegen.app import CoursegenSettings, app, plan, tiers
from onceward_apps.coursegen.errors import AccountRefused, GenerationFailed, Halted
from onceward_apps.coursegen.generation import Generation
from onceward_apps.coursegen.steps import load_steps
from onceward_apps.coursegen.store import calls, costs, courses, waiting_line

FAILED_WAIT_S = 5.0
"""A run that failed unexpectedly gets no slot before this time."""

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

    Other programs may enqueue it by SQL with `course_id` alone; such a job joins the waiting line here. A run that
    has to wait gives its slots back, so waiting work holds none.
    """
    with bind(requestId=request_id, userId=user_id, tier=tier, courseId=course_id, jobId=str(job.id)):
        try:
            generation = await begin(job, course_id)
            with bind(userId=generation.course["user_id"], tier=generation.tier):
                await run(generation)
        except Halted as halted:
            log.info("coursegen.halted", reason=str(halted))
            return {"status": "halted", "reason": str(halted)}
        except AccountRefused as refused:
            async with job.transaction(fenced=True) as tx:
                await line.park(tx, job, course_id, str(refused))
            raise Snooze(line.LOOK_S, "the language model service refuses our account") from None
        except (Permanent, Snooze):
            raise
        except Retry as later:
            await _wait(job, course_id, later.after_s or FAILED_WAIT_S)
            raise
        except Exception:
            await _wait(job, course_id, FAILED_WAIT_S)
            raise
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
    line.admit_soon(tx)


async def _wait(job: Job, course_id: UUID, after_s: float) -> None:
    """Give the slots back until the next attempt. If this is not written, the job keeps them: that is safe."""
    try:
        async with job.transaction(fenced=True) as tx:
            await line.join_again(tx, job, course_id, "retry", after_s=after_s)
    except Exception as failure:
        log.warning("coursegen.slot_kept", error=type(failure).__name__)


async def begin(job: Job, course_id: UUID) -> Generation:
    """Start an attempt of a course that holds its slots. Raises `Snooze` if it still waits in the line."""
    if job.organization is None:
        raise Permanent("the job has no organization: set onceward.organization before onceward.enqueue")
    for looked in (False, True):
        async with job.transaction(fenced=True) as tx:
            engine: Engine = tx.engine
            course = await _taken_over(tx, job, course_id)
            if await _holds_slots(tx, job, course):
                generation, recovered, lost = await _started(tx, job, course)
                break
        if not looked:
            await line.admit(engine)
    else:
        raise Snooze(line.LOOK_S, "waits for a slot")
    if recovered:
        await _note_recovery(engine, job, generation.course)
    log.info("coursegen.started", attempt=job.attempt, lost_calls=lost, priority=tiers().head_start_s(generation.tier))
    return generation


async def _started(tx: Tx, job: Job, course: Any) -> tuple[Generation, bool, int]:
    """Mark the course as being generated, recover its first step, and mark interrupted calls as lost."""
    course_id = course["id"]
    progress = course["generation_progress"]
    recovered = not model.is_completed(progress, 1)
    if recovered:
        message = texts.text("initialised.by_worker", texts.locale_of(course["language"]))
        metadata = {"recovered_by_worker": True, "job_id": str(job.id)}
        progress = await courses.progress(tx, course_id, 1, "completed", message, metadata=metadata)
    lost = await calls.mark_lost(tx, course_id)
    course = await courses.begin(tx, course_id, job_id=job.id, tier=course["tier"])
    generation = Generation(
        engine=tx.engine,
        job=job,
        course=course,
        version=await courses.version(tx, course_id, course["attempt"]),
        tier=course["tier"],
        settings=app.settings(CoursegenSettings),
        plan=plan(await costs.own_settings(tx)),
        progress=dict(progress),
        is_probe=await waiting_line.paused(tx) is not None,
    )
    return generation, recovered or bool(model.step_of(progress, 1)["metadata"].get("recovered_by_worker")), lost


async def _taken_over(tx: Tx, job: Job, course_id: UUID) -> Any:
    """Return the course, locked, if this job may generate it. A job without a request joins the waiting line here."""
    course = await courses.lock(tx, course_id)
    if course is None:
        raise Halted("the course does not exist")
    if course["status"] in model.RUNNING:
        if course["job_id"] != job.id:
            raise Halted(f"job {course['job_id']} generates the course")
        return course
    if course["status"] == "completed":
        raise Halted("the course is completed")
    if course["status"] == "cancelled" and course["job_id"] == job.id:
        raise Halted("the course is cancelled")
    tier = await _tier(tx, course["user_id"])
    await courses.queue(
        tx,
        course_id,
        job_id=job.id,
        tier=tier,
        request_id=course["request_id"],
        webhook=None,
        start="resume",
        head_start_s=tiers().head_start_s(tier),
        user_limit=tiers().of(tier),
    )
    return await courses.lock(tx, course_id)


async def _holds_slots(tx: Tx, job: Job, course: Any) -> bool:
    """Return whether it is this course's turn. Slots that an admitted course has lost are taken again."""
    if course["admitted_at"] is None:
        return False
    try:
        await reserve(tx, job.id, line.limits_of(course["user_id"], course["tier"]))
    except LimitReached:
        await line.join_again(tx, job, course["id"], "retry", after_s=0)
        return False
    return True


async def _tier(tx: Tx, user_id: UUID) -> str:
    known = tiers().at_most
    stored = ((await courses.tier(tx, user_id)) or "").upper()
    return stored if stored in known else min(known, key=lambda each: known[each])


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
