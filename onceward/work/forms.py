"""What a task accepts, as a short digest, so that workers with two versions of the code can see that they differ.

While a deploy rolls, a job that new code enqueued may meet an old worker whose signature lacks its new argument, or the
other way round. Such a job is no dead letter yet: it waits until a worker it fits has taken it, or all are of one version.
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
    """Of a JSON schema; empty where a type has none, so that all versions of it look alike."""
    try:
        text = json.dumps(schema(), sort_keys=True)
    except (PydanticUserError, TypeError):
        return ""
    return sha256(text.encode()).hexdigest()[:12]


def form(task: Task) -> str:
    """As it stands in `onceward.workers.forms`."""
    return f"{task.name} {task.form() if task.form is not None else ''}"


async def differs_elsewhere(conn: Connection, task: Task) -> bool:
    """Whether a worker runs another version of this task."""
    return await conn.fetchval(OTHERS, task.name, form(task))
