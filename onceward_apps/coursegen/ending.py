"""The end of a generation: its state, the progress of its step, and the callback, in one commit and once per job."""

from __future__ import annotations

from typing import Any, Literal, get_args

from onceward import Tx
from onceward_apps.coursegen import model, texts
from onceward_apps.coursegen.metrics import ENDED
from onceward_apps.coursegen.model import ErrorCode
from onceward_apps.coursegen.store import courses

Ending = Literal["completed", "failed", "cancelled"]

CODES: dict[str, ErrorCode] = {
    "timeout": "timeout",
    "worker_lost": "worker_lost",
    "connection_lost": "worker_lost",
    "no_handler": "worker_lost",
}
"""The error code of a course whose job ended without its handler, by the reason that the engine gives."""


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
    tx.after_commit(lambda: ENDED.labels(ending).inc())
    return True


async def end_by_outcome(tx: Tx, course: Any, outcome: str, reason: str | None, message: str | None) -> bool:
    """End the run of a course whose job has ended without telling the course: a crash, a timeout, a cancelled job."""
    match outcome:
        case "success":
            return False
        case "cancelled" | "discarded":
            return await end(tx, course, "cancelled", "cancelled")
        case _:
            return await end(tx, course, "failed", code_of(reason, message), reason)


def code_of(reason: str | None, message: str | None) -> ErrorCode:
    """Return the error code for the reason that the engine gives. The job's own errors begin with their code."""
    named = (message or "").partition(":")[0]
    return CODES.get(reason or "") or next((code for code in get_args(ErrorCode) if code == named), "internal")
