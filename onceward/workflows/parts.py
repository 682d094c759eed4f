"""The loop that prunes ended workflows and postpones workflows that no running worker knows."""

from __future__ import annotations

from datetime import timedelta

from onceward.background import Loop
from onceward.context import Context
from onceward.work import Walk
from onceward.workflows.operate import prune, set_aside_unknown


def upkeep(context: Context) -> Loop:
    keep = timedelta(days=context.settings.retention_days)
    walk = Walk()

    async def step() -> None:
        async with context.database.acquire() as conn:
            await set_aside_unknown(conn, walk)
        await prune(context.database, keep=keep)

    return Loop("workflow upkeep", step, every_s=60)
