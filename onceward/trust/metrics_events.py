"""Events of `system_metrics`: what went wrong, or nearly, in the engine itself. Written by the engine only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast, get_args
from uuid import UUID

from onceward.db import Connection, Database, Transaction

Event = Literal[
    "job_rollback",
    "orphaned_job_recovery",
    "concurrency_limit_hit",
    "worker_timeout",
    "rpc_retry_exhausted",
    "duplicate_job_detected",
]
Severity = Literal["info", "warn", "error", "fatal"]

SEVERITY_OF: dict[Event, Severity] = {
    "job_rollback": "error",
    "orphaned_job_recovery": "warn",
    "concurrency_limit_hit": "warn",
    "worker_timeout": "error",
    "rpc_retry_exhausted": "error",
    "duplicate_job_detected": "info",
}
"""What an event is unless its writer says otherwise."""

OTHER_NAMES: dict[str, Severity] = {"warning": "warn", "high": "error", "critical": "fatal"}


def severity(name: str) -> Severity:
    """A severity by any of the names in use: HIGH is error, CRITICAL is fatal, warning is warn."""
    lower = name.lower()
    if lower in get_args(Severity):
        return cast(Severity, lower)
    if lower in OTHER_NAMES:
        return OTHER_NAMES[lower]
    raise ValueError(f"severity {name!r} is none of {', '.join(get_args(Severity))} (or warning, HIGH, CRITICAL)")


async def record_metric(
    conn: Database | Connection | Transaction,
    event: Event,
    *,
    severity_name: str | None = None,
    user_id: UUID | None = None,
    course_id: UUID | None = None,
    job_id: str | int | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Append an event. A transaction of the app role may not: it is written afterwards, on a connection of its own."""
    if event not in SEVERITY_OF:
        raise ValueError(f"event {event!r} is none of {', '.join(SEVERITY_OF)}")
    await conn.execute(
        "insert into onceward.system_metrics (event_type, severity, user_id, course_id, job_id, metadata)"
        " values ($1, $2, $3, $4, $5, $6)",
        event,
        SEVERITY_OF[event] if severity_name is None else severity(severity_name),
        user_id,
        course_id,
        None if job_id is None else str(job_id),
        dict(metadata or {}),
    )
