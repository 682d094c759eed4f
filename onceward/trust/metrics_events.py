"""Events of `system_metrics`: failures and near failures of the engine itself. Only the engine writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
"""The default severity of each event."""

OTHER_NAMES: dict[str, Severity] = {"warning": "warn", "high": "error", "critical": "fatal"}


def severity(name: str) -> Severity:
    """Return the severity for any name in use: HIGH is error, CRITICAL is fatal, warning is warn."""
    lower = name.lower()
    if lower in get_args(Severity):
        return cast(Severity, lower)
    if lower in OTHER_NAMES:
        return OTHER_NAMES[lower]
    raise ValueError(f"severity {name!r} must be one of {', '.join(get_args(Severity))} (or warning, HIGH, CRITICAL)")


async def record_metrics(
    conn: Database | Connection | Transaction, event: Event, jobs: Sequence[tuple[int, Mapping[str, Any]]]
) -> None:
    """Append one event for each job, given by its id and the metadata, in one statement."""
    if jobs:
        await conn.execute(
            "insert into onceward.system_metrics (event_type, severity, job_id, metadata)"
            " select $1, $2, j.id, j.metadata from unnest($3::text[], $4::jsonb[]) as j (id, metadata)",
            event,
            SEVERITY_OF[event],
            [str(id) for id, _ in jobs],
            [dict(metadata) for _, metadata in jobs],
        )


async def record_metric(
    conn: Database | Connection | Transaction,
    event: Event,
    *,
    severity_name: str | None = None,
    user_id: UUID | None = None,
    subject: str | None = None,
    job_id: str | int | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Append an event. `subject` is what it is about, such as the id of an order; never the name of a person.

    The app role may not do this, so call it after its transaction, on another connection."""
    if event not in SEVERITY_OF:
        raise ValueError(f"event {event!r} must be one of {', '.join(SEVERITY_OF)}")
    await conn.execute(
        "insert into onceward.system_metrics (event_type, severity, user_id, subject, job_id, metadata)"
        " values ($1, $2, $3, $4, $5, $6)",
        event,
        SEVERITY_OF[event] if severity_name is None else severity(severity_name),
        user_id,
        subject,
        None if job_id is None else str(job_id),
        dict(metadata or {}),
    )
