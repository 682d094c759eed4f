"""The task that runs a piece of work. Hooks of messages and deliveries are tasks only where these are sent."""

from __future__ import annotations

from typing import Any

from onceward.messages.endings import message_end_hook
from onceward.outbox.endings import delivery_end_hook
from onceward.work import AppRegistry, Claimed, JobEnd, Task

HOOK = "#on_end"


def task_named(registry: AppRegistry, name: str) -> Task | None:
    """Return the task with this name, as a worker of the app has it; None if the app has none."""
    task = registry.tasks.get(name)
    if task is not None or not name.endswith(HOOK):
        return task
    hook: Any = None
    if name.startswith("message:"):
        hook = message_end_hook(registry.message_hooks)
    elif name.startswith("outbox."):
        hook = delivery_end_hook(registry.delivery_hooks)
    if hook is None:
        return None

    async def run(work: Claimed, tx: Any) -> Any:
        return await hook(tx, JobEnd.load(work.args))

    return Task(name=name, run=run, transactional=True)
