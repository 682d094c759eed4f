"""Accept a request to generate a course, or refuse it.

One transaction creates the job, puts the course into the waiting line or takes its slots, and writes the first step.
So there is no moment in which a slot is taken and no job exists, or a job exists and no progress. A failed transaction
leaves nothing to undo. A request is refused only if the line is full.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar
from uuid import UUID

import asyncpg

from onceward import Engine, LimitReached, OutcomeUnknown, Tx
from onceward.db import BROKEN, Unavailable
from onceward.limits import GLOBAL, Refusal, reserve, want
from onceward.telemetry import get_logger
from onceward.trust import record_metric
from onceward_apps.coursegen import line, model, texts
from onceward_apps.coursegen.app import CoursegenSettings, app, plan, tiers
from onceward_apps.coursegen.errors import AtLimit, NotAccepted, NotFound, NotPossible
from onceward_apps.coursegen.forecast import Forecast, forecast
from onceward_apps.coursegen.jobs import generate
from onceward_apps.coursegen.metrics import ACCEPTED
from onceward_apps.coursegen.store import costs, courses, waiting_line

WAITS_S = (0.1, 0.2)
"""Waits between the tries of one request: 3 tries."""
TRANSIENT_CLASSES = frozenset({"08", "40", "53", "55", "57"})
"""SQLSTATE classes of errors that a retry may not meet again: connection, rollback, resources, locks, shutdown."""
RETRY_AFTER_S = 5

MetricEvent = Literal["rpc_retry_exhausted", "job_rollback"]

T = TypeVar("T")

log = get_logger("onceward_apps.coursegen")


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """A request to generate one course. `webhook` is the checked URL and its endpoint."""

    organization: UUID
    user_id: UUID
    course_id: UUID
    request_id: str | None = None
    webhook: tuple[str, UUID | None] | None = None
    restart: bool = False
    lesson: int | None = None
    """Write this lesson again, and nothing else that is done."""
    budget_micros: int | None = None


@dataclass(frozen=True, slots=True)
class Admitted:
    """The job that generates the course. `duplicate`: it existed already, and no second slot was taken.

    `place`: it waits for slots at this place of the line.
    """

    job_id: int
    duplicate: bool = False
    place: line.Place | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A course that may be generated, with the limits that apply to its user."""

    course: Any
    tier: str
    limit_key: str
    user_limit: int
    cap_micros: int | None
    forecast: Forecast | None = None
    """What the course will cost, if there is a cap of the organization or the user."""

    @property
    def refusal(self) -> dict[str, Any]:
        """What a refusal records about this request."""
        return {
            "tier": self.tier,
            "user_limit": self.user_limit,
            "global_limit": self.course["global_limit"],
            "rejected_course_id": str(self.course["id"]),
        }


async def look_up(engine: Engine, organization: UUID, user_id: UUID, course_id: UUID) -> Candidate:
    """Return the course of this user. Raises `NotFound`, also for somebody else's course, or `NotAccepted`."""
    key = line.limit_key(user_id)
    slots = tiers().at_most
    names = sorted(slots, key=lambda each: slots[each])

    async def read() -> Any:
        async with engine.transaction(organization=organization) as tx:
            found = await courses.candidate(tx, course_id, user_id, limit_key=key, tiers=names)
            chosen = plan(await costs.own_settings(tx))
            return found, await forecast(tx, found, chosen) if found is not None and chosen.has_caps else None

    (course, expected), _ = await _tried(engine, user_id, course_id, read)
    if course is None:
        raise NotFound(f"course {course_id} does not exist, or is not yours")
    return Candidate(
        course=course,
        tier=course["tier"],
        limit_key=key,
        user_limit=tiers().of(course["tier"]),
        cap_micros=model.parse_caps(app.settings(CoursegenSettings).monthly_caps_usd).get(course["tier"]),
        forecast=expected,
    )


def refuse_early(engine: Engine, requested: GenerationRequest, candidate: Candidate) -> None:
    """Raise `AtLimit` if the line is full now, before anything is written or an address is looked up.

    The transaction decides; this only spares the database what it would undo. A course that already has a job is never
    refused: the caller gets the job.
    """
    course = candidate.course
    if course["status"] in model.RUNNING:
        return
    cap = candidate.cap_micros
    if cap is not None and course["month_micros"] >= cap:
        ACCEPTED.labels("refused").inc()
        raise AtLimit("monthly_cap", retry_after_s=model.seconds_to_next_month(course["now"]), **candidate.refusal)
    expected = candidate.forecast
    # One lesson costs little; its calls stop at the cap.
    if expected is not None and not expected.fits and requested.lesson is None:
        ACCEPTED.labels("refused").inc()
        raise AtLimit(
            "forecast",
            retry_after_s=model.seconds_to_next_month(course["now"]),
            expected_usd=f"{expected.expected_micros / model.MICROS:.2f}",
            left_usd=f"{(expected.cap_left_micros or 0) / model.MICROS:.2f}",
            **candidate.refusal,
        )
    reached = _full(candidate, everybody=course["waiting"], own=course["user_waiting"])
    if reached is not None:
        engine.note_refusal(reached, candidate.refusal, _refusal(requested, candidate))
        ACCEPTED.labels("refused").inc()
        raise _at_limit(reached, candidate)


def _full(candidate: Candidate, *, everybody: int, own: int, must_wait: bool | None = None) -> LimitReached | None:
    """Return the limit that refuses a request: it would have to wait, and the line has no place for it."""
    course = candidate.course
    settings = app.settings(CoursegenSettings)
    user_is_full = course["user_jobs"] >= candidate.user_limit
    if must_wait is None:
        must_wait = user_is_full or everybody > 0 or course["global_jobs"] >= course["global_limit"]
    if not must_wait:
        return None
    if own >= settings.waiting_per_user or (user_is_full and not settings.waiting_most):
        return LimitReached(candidate.limit_key, candidate.user_limit, course["user_jobs"], retry_after_s=RETRY_AFTER_S)
    if not user_is_full and everybody >= settings.waiting_most:
        return LimitReached(GLOBAL, course["global_limit"], course["global_jobs"], retry_after_s=RETRY_AFTER_S)
    return None


async def request_generation(engine: Engine, requested: GenerationRequest, candidate: Candidate) -> Admitted:
    """Accept the course in one transaction, tried three times. Raises `AtLimit`, `NotPossible` or `NotAccepted`."""
    try:
        admitted, failure = await _tried(
            engine, requested.user_id, requested.course_id, lambda: _accept(engine, requested, candidate)
        )
    except LimitReached as reached:
        engine.note_refusal(reached, candidate.refusal, _refusal(requested, candidate))
        ACCEPTED.labels("refused").inc()
        raise _at_limit(reached, candidate) from None
    if isinstance(failure, OutcomeUnknown):
        # The job of the try whose commit was not confirmed is this request's own.
        admitted = Admitted(admitted.job_id, place=admitted.place)
    _note_admission(engine, candidate, admitted)
    return admitted


async def _tried(
    engine: Engine, user_id: UUID, course_id: UUID, action: Callable[[], Awaitable[T]]
) -> tuple[T, BaseException | None]:
    """Return what the action returns and its last failure, after at most three tries. Raises `NotAccepted`."""
    failure: BaseException | None = None
    tries = 0
    for wait_s in (*WAITS_S, None):
        tries += 1
        try:
            return await action(), failure
        except (*BROKEN, Unavailable, OutcomeUnknown, asyncpg.PostgresError, TimeoutError, OSError) as error:
            failure = error
            log.warning("coursegen.accept_failed", try_number=tries, error=type(error).__name__)
            if wait_s is None or not is_transient(error):
                break
            await asyncio.sleep(wait_s)
    assert failure is not None
    ACCEPTED.labels("failed").inc()
    engine.later(_note_rollback(engine, user_id, course_id, failure, tries))
    raise NotAccepted("the course could not be accepted: the database failed") from failure


def is_transient(error: BaseException) -> bool:
    """Return whether the same transaction may succeed in a moment. After an unknown commit the unique key finds the
    job."""
    state: str | None = getattr(error, "sqlstate", None)
    return state is None or state[:2] in TRANSIENT_CLASSES


async def _accept(engine: Engine, requested: GenerationRequest, candidate: Candidate) -> Admitted:
    async with engine.transaction(organization=requested.organization) as tx:
        course = await courses.lock(tx, requested.course_id)
        if course is None or course["user_id"] != requested.user_id:
            raise NotFound(f"course {requested.course_id} does not exist, or is not yours")
        job = await tx.enqueue(
            generate.unique(f"course:{requested.course_id}")
            .head_start(tiers().head_start_s(candidate.tier))
            .max_attempts(app.settings(CoursegenSettings).max_attempts)
            .tagged("coursegen", candidate.tier),
            course_id=requested.course_id,
            user_id=requested.user_id,
            tier=candidate.tier,
            request_id=requested.request_id,
        )
        if job.duplicate:
            if course["status"] not in model.RUNNING:
                raise NotPossible("the previous run of this course is still stopping; try again in a few seconds")
            return Admitted(job.id, duplicate=True, place=await line.place(tx, course))
        await _queue(tx, requested, candidate, course, job.id)
        if await _take_slots(tx, candidate, requested, job.id):
            return Admitted(job.id)
        return Admitted(job.id, place=await line.place(tx, await courses.lock(tx, requested.course_id)))


async def _take_slots(tx: Tx, candidate: Candidate, requested: GenerationRequest, job_id: int) -> bool:
    """Take the slots if nobody waits, else leave the course in the line. Raises `LimitReached` if it is full."""
    numbers = await waiting_line.numbers(tx, requested.user_id, requested.course_id)
    if numbers["everybody"] == 0 and await waiting_line.paused(tx) is None:
        try:
            await reserve(tx, job_id, line.limits_of(requested.user_id, candidate.tier))
        except LimitReached as reached:
            await want(tx, reached.key)
        else:
            await waiting_line.admit(tx, requested.course_id, job_id)
            return True
    await waiting_line.lock_line(tx)
    numbers = await waiting_line.numbers(tx, requested.user_id, requested.course_id)
    reached = _full(candidate, everybody=numbers["everybody"], own=numbers["own"], must_wait=True)
    if reached is not None:
        raise reached
    return False


async def _queue(tx: Tx, requested: GenerationRequest, candidate: Candidate, course: Any, job_id: int) -> None:
    start, source = await _start(tx, requested, course)
    if requested.budget_micros is not None:
        await courses.set_budget(tx, requested.course_id, requested.budget_micros)
    attempt = await courses.queue(
        tx,
        requested.course_id,
        job_id=job_id,
        tier=candidate.tier,
        request_id=requested.request_id,
        webhook=requested.webhook,
        start=start,
        head_start_s=tiers().head_start_s(candidate.tier),
        user_limit=candidate.user_limit,
    )
    if start == "rewrite":
        assert requested.lesson is not None
        if not await courses.copy_version(tx, requested.course_id, attempt, source=source, lesson=requested.lesson):
            raise NotFound(f"the course has no lesson {requested.lesson}")
    message = texts.text("initialised", texts.locale_of(course["language"]))
    metadata = {"job_id": str(job_id), "executor": "orchestrator"}
    await courses.progress(tx, requested.course_id, 1, "completed", message, metadata=metadata)


async def _start(tx: Tx, requested: GenerationRequest, course: Any) -> tuple[model.Start, int]:
    """Return how the course starts, and the version that a rewritten lesson is taken from. Raises `NotPossible`."""
    latest = await courses.version(tx, requested.course_id, course["attempt"])
    unfinished = latest is not None and latest["completed_at"] is None
    source = course["shown"] or course["attempt"]
    if requested.lesson is not None:
        # A rewrite that was not finished is continued: what it has written is paid for.
        is_same = (
            latest is not None and unfinished and latest["kind"] == "rewrite" and latest["lesson"] == requested.lesson
        )
        return ("resume" if is_same else "rewrite"), source
    start = model.start_of(course["status"], restart=requested.restart, unfinished=unfinished)
    if start is None:
        raise NotPossible("the course is completed: send `restart: true` to write and pay for all of it again")
    return start, source


def _refusal(requested: GenerationRequest, candidate: Candidate) -> Refusal:
    return Refusal(user_id=requested.user_id, subject=str(requested.course_id), metadata=candidate.refusal)


def _at_limit(reached: LimitReached, candidate: Candidate) -> AtLimit:
    which = "global" if reached.key == GLOBAL else "user"
    facts = {**candidate.refusal, "current_jobs": reached.held}
    return AtLimit(which, retry_after_s=reached.retry_after_s, **facts)


def _note_admission(engine: Engine, candidate: Candidate, admitted: Admitted) -> None:
    ACCEPTED.labels("duplicate" if admitted.duplicate else "accepted").inc()
    log.info(
        "coursegen.duplicate" if admitted.duplicate else "coursegen.accepted",
        jobId=str(admitted.job_id),
        priority=tiers().head_start_s(candidate.tier),
    )


async def _note_rollback(engine: Engine, user_id: UUID, course_id: UUID, failure: BaseException, tries: int) -> None:
    """Record the failure in its own transaction: the one that failed is gone. The database may need a moment."""
    reason = f"{type(failure).__name__} {getattr(failure, 'sqlstate', None) or ''}".strip()
    about: dict[str, Any] = {"user_id": user_id, "subject": str(course_id)}
    metadata = {
        "reason": "rpc_update_course_progress_failed",
        "attempts": tries,
        "last_error": reason,
        "rollback_timestamp": datetime.now(UTC).isoformat(),
    }
    events: list[MetricEvent] = ["rpc_retry_exhausted"] if tries > len(WAITS_S) else []
    events.append("job_rollback")
    for wait_s in (0.0, 0.5, 2.0):
        await asyncio.sleep(wait_s)
        try:
            while events:
                await record_metric(engine.db, events[0], **about, metadata=metadata)
                del events[0]
            return
        except (*BROKEN, Unavailable, asyncpg.PostgresError, TimeoutError, OSError) as error:
            log.error("coursegen.rollback_not_recorded", error=type(error).__name__)
