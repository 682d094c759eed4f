"""The end of a generation: its state, the progress of its step, and the callback, in one commit and once per job."""

from __future__ import annotations

import logging
from typing import Any, Literal, cast, get_args

from onceward import Tx
from onceward.telemetry import get_logger
from onceward_apps.coursegen import model, texts
from onceward_apps.coursegen.metrics import ENDED
from onceward_apps.coursegen.model import ErrorCode
from onceward_apps.coursegen.store import courses

DONE = {"status": "completed"}
"""What a job returns that generated its course, with the id of the course."""

Ending = Literal["completed", "failed", "cancelled"]

CODES: dict[str, ErrorCode] = {
    "timeout": "timeout",
    "worker_lost": "worker_lost",
    "connection_lost": "worker_lost",
    "no_handler": "worker_lost",
}
"""The error code of a course whose job ended without its handler, by the reason that the engine gives."""

log = get_logger("onceward_apps.coursegen")


async def end(tx: Tx, course: Any, ending: Ending, code: ErrorCode | None = None, reason: str | None = None) -> bool:
    """End the run of a course that is locked in this transaction. False: the run has ended already."""
    if course is None or course["status"] not in model.RUNNING:
        return False
    locale = texts.locale_of(course["language"])
    error = None if code is None else texts.text(f"failed.{code}", locale)
    progress: dict[str, Any] = course["generation_progress"] or {}
    number = model.unfinished_step(progress)
    if ending != "completed" and number is not None:
        status = "failed" if ending == "failed" else "pending"
        details = None if code is None else {"code": code, "reason": reason}
        progress = await courses.progress(
            tx,
            course["id"],
            number,
            status,
            error,
            error=error if ending == "failed" else None,
            details=details,
            metadata={"message_key": f"failed.{code}"},
        )
    await courses.end(tx, course["id"], ending, code, error)
    if course["webhook_endpoint"] is not None:
        await tx.publish(
            "course.completed" if ending == "completed" else "course.failed",
            {
                "courseId": course["id"],
                "jobId": str(course["job_id"]),
                "status": ending,
                "progress": progress,
                "error": code,
            },
            key=f"coursegen:{course['id']}:{course['job_id']}:{ending}",
            endpoint=course["webhook_endpoint"],
        )
    tx.after_commit(lambda: _note(course, ending, code))
    return True


def _note(course: Any, ending: Ending, code: ErrorCode | None) -> None:
    ENDED.labels(ending).inc()
    log.log(
        logging.WARNING if ending == "failed" else logging.INFO,
        f"coursegen.{ending}",
        requestId=course["request_id"],
        userId=str(course["user_id"]),
        tier=course["tier"],
        courseId=str(course["id"]),
        jobId=str(course["job_id"]),
        code=code,
    )


async def end_by_outcome(
    tx: Tx, course: Any, outcome: str, *, reason: str | None, error: str | None, result: Any
) -> bool:
    """End the run of a course as its job ended. A job that halted did not generate the course and changes nothing."""
    match outcome:
        case "success":
            return result == {**DONE, "course_id": str(course["id"])} and await end(tx, course, "completed")
        case "cancelled" | "discarded":
            return await end(tx, course, "cancelled", "cancelled")
        case _:
            return await end(tx, course, "failed", *cause_of(reason, error))


def cause_of(reason: str | None, message: str | None) -> tuple[ErrorCode, str | None]:
    """Return the error code and the details for the end of a job. The job's own errors begin with their code."""
    named, _, details = (message or "").partition(": ")
    if reason in CODES:
        return CODES[reason], reason
    if named in get_args(ErrorCode):
        return cast(ErrorCode, named), details
    return "internal", reason
