"""The parts of a process that limits run."""

from __future__ import annotations

from functools import partial

from onceward.context import Context
from onceward.limits import AdaptiveLimit, Bounds, EarlyRefusal, Tiers, forget_idle, reconcile
from onceward.work import Loop


def tiers(context: Context) -> None:
    """Give the engine the slots per tier from the settings; nothing runs."""
    context.engine.tiers = Tiers.parse(context.settings.limit_tiers)


def early_refusal(context: Context) -> EarlyRefusal | None:
    """Refuses from Redis before PostgreSQL is asked, where Redis is configured."""
    url = context.settings.redis_url
    if url is None:
        return None
    context.engine.early = early = EarlyRefusal(url.get_secret_value(), context.database)
    return early


def idle_rates(context: Context) -> Loop:
    """Deletes counters of rates that nobody has used for a while."""

    async def delete_idle() -> None:
        async with context.database.acquire() as conn:
            await forget_idle(conn)

    return Loop("idle rates", delete_idle, every_s=3600)


def adaptive_limit(context: Context) -> AdaptiveLimit:
    """Moves the global limit with the load of the machine."""
    settings = context.settings
    return AdaptiveLimit(context.database, bounds=Bounds(settings.limit_global_min, settings.limit_global_max))


def reconciliation(context: Context) -> Loop:
    """Frees slots whose work has ended."""
    return Loop("limit reconciliation", partial(reconcile, context.database), every_s=300)
