"""Digests of the arguments that tasks accept. Workers compare them to see whether they run different code.

During a rolling deploy an old worker may claim a job with an argument that only new code knows, or the reverse. Such a
job is not a dead letter yet: it waits until a worker that accepts it claims it, or until all workers run one version.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from pydantic.errors import PydanticUserError

from onceward.db import Connection
from onceward.work.task import Task

OTHERS = "select exists (select from onceward.workers where $1 = any(tasks) and not $2 = any(forms))"


def digest(schema: Callable[[], dict[str, Any]]) -> str:
    """Return the digest of a JSON schema, or an empty string for a type without one: its versions cannot be compared."""
    try:
        text = json.dumps(schema(), sort_keys=True)
    except (PydanticUserError, TypeError):
        return ""
    return sha256(text.encode()).hexdigest()[:12]


def form(task: Task) -> str:
    """Return the text that a worker stores in `onceward.workers.forms`."""
    return f"{task.name} {task.form() if task.form is not None else ''}"


async def differs_elsewhere(conn: Connection, task: Task) -> bool:
    """Return whether another worker runs a different version of this task."""
    return await conn.fetchval(OTHERS, task.name, form(task))
