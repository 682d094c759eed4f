"""The parts of limits in a running process."""

from __future__ import annotations

from functools import partial

from onceward.background import Loop
from onceward.context import Context
from onceward.limits import AdaptiveLimit, Bounds, forget_idle, reconcile
from onceward.limits.settings import LimitsSettings


def idle_rates(context: Context) -> Loop:
    """Return the loop that deletes rate keys whose allowance is full again."""

    async def delete_idle() -> None:
        async with context.database.acquire() as conn:
            await forget_idle(conn)

    return Loop("idle rates", delete_idle, every_s=3600)


def adaptive_limit(context: Context) -> AdaptiveLimit:
    """Return the part that adapts the global limit to the load of the machine."""
    settings = context.settings.of(LimitsSettings)
    return AdaptiveLimit(context.database, bounds=Bounds(settings.limit_global_min, settings.limit_global_max))


def reconciliation(context: Context) -> Loop:
    """Return the loop that deletes the slots of ended work."""
    return Loop("limit reconciliation", partial(reconcile, context.database), every_s=300)
