"""Invariants of events: an unfinished event has a row in `work`, a finished event has none."""

from __future__ import annotations

from collections.abc import Sequence

from onceward.db import Connection
from onceward.statements import read_statement
from onceward.trust.invariants import Check, resumable, unfinished_rows
from onceward.work.checks import work_has_a_body

UNFINISHED = read_statement("inbox", "check_unfinished_without_work")
ENDED = read_statement("inbox", "check_finished_with_work")


async def check_status_agrees_with_work(conn: Connection) -> Sequence[str]:
    """Check that the status of an event agrees with the state of its work."""
    return [
        f"event {row['seq']} is {row['status']}, but its work is {row['dead_reason'] or 'waiting'}"
        for row in await conn.fetch(ENDED)
    ]


CHECKS: tuple[Check, ...] = (
    work_has_a_body("event", "onceward.webhook_events", id="seq"),
    resumable(
        "inbox.unfinished_events_have_work",
        unfinished_rows(
            UNFINISHED, lambda row: f"event {row['id']} is {row['status']}, but has no work: no worker will handle it"
        ),
    ),
    Check("inbox.status_agrees_with_work", check_status_agrees_with_work),
)
