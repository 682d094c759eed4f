"""Digests of the arguments that tasks accept. Workers compare them to see whether they run different code.

During a rolling deploy an old worker may claim a job with an argument that only new code knows, or the reverse. Such a
job is not a dead letter yet: it waits for a worker that accepts it, for up to an hour, even if only one version runs so
far. An event that does not fit its model waits only while another version runs: its sender decides what is in it, not
our code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from pydantic.errors import PydanticUserError

from onceward.db import Connection
from onceward.statements import read_statement
from onceward.work.claimed import Claimed
from onceward.work.outcomes import ArgumentsInvalid
from onceward.work.task import Task
from onceward.work.unserved import note

OTHER_VERSION_S = 5.0
"""Work that does not fit waits at least this long before it is claimed again."""
LONGEST_WAIT_S = 60.0
PATIENCE_S = 3600.0
"""Work that does not fit any version becomes a dead letter after this time."""

OTHERS = "select exists (select from onceward.workers where $1 = any(tasks) and not $2 = any(forms))"


WAITED = read_statement("work", "waited_for_version")
NOTE = read_statement("work", "note_no_version")


def digest(schema: Callable[[], dict[str, Any]]) -> str:
    """Return the digest of a JSON schema, or an empty string for a type without one: its versions cannot be
    compared."""
    try:
        text = json.dumps(schema(), sort_keys=True)
    except (PydanticUserError, TypeError):
        return ""
    return sha256(text.encode()).hexdigest()[:12]


def form(task: Task) -> str:
    """Return the text that a worker stores in `onceward.workers.forms`."""
    return f"{task.name} {task.form() if task.form is not None else ''}"


async def wait_for_version(conn: Connection, task: Task, work: Claimed, error: Mapping[str, Any]) -> float | None:
    """Return how long work that does not fit this version waits for another one, or None if it has waited long
    enough."""
    others_run: bool = await conn.fetchval(OTHERS, task.name, form(task))
    if not others_run and error["type"] != ArgumentsInvalid.__name__:
        return None
    waited_s: float = await conn.fetchval(WAITED, work.id)
    if waited_s >= PATIENCE_S:
        return None
    row = await conn.fetchrow(NOTE, work.id)
    if row is not None and row["is_new"]:
        note(row["queue"], row["task"], "no_version")
    return OTHER_VERSION_S if others_run else min(max(OTHER_VERSION_S, waited_s / 4), LONGEST_WAIT_S)
