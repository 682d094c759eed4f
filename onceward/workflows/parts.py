"""The loop that prunes ended workflows."""

from __future__ import annotations

from datetime import timedelta

from onceward.background import Loop
from onceward.context import Context
from onceward.work.settings import WorkSettings
from onceward.workflows.operate import prune


def upkeep(context: Context) -> Loop:
    keep = timedelta(days=context.settings.of(WorkSettings).retention_days)

    async def step() -> None:
        await prune(context.database, keep=keep)

    return Loop("workflow upkeep", step, every_s=60)
