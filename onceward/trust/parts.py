"""The parts that trust adds to a process."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from onceward.background import Loop
from onceward.context import Context
from onceward.statements import read_statement
from onceward.trust.anchors import Anchors, anchor_files
from onceward.trust.erase import finish_erasures
from onceward.trust.erasure_scans import continue_abandoned
from onceward.trust.failures import forget_old
from onceward.trust.keys import forget_old_addresses
from onceward.trust.sealer import Sealer
from onceward.trust.sessions import forget_expired
from onceward.work import in_batches
from onceward.work.settings import WorkSettings

ANCHORS_S = 3600.0
"""Seconds between two anchors of the audit chain."""
FORGET_METRICS = read_statement("trust", "forget_metrics")


def sealer(context: Context) -> Sealer:
    """Return the loop that chains audit entries after their commit."""
    return Sealer(context.database, context.box)


def anchors(context: Context) -> Anchors:
    """Return the loop that copies the head of the audit chain out of the database."""
    settings = context.settings
    return Anchors(context.database, anchor_files(settings), every_s=ANCHORS_S)


def expired_logins(context: Context) -> Loop:
    """Return the loop that deletes expired login links, sessions, failure counts and old addresses of keys."""

    keep = timedelta(days=max(context.settings.of(WorkSettings).retention_days, 30))

    async def delete_expired() -> None:
        await in_batches(partial(context.database.fetchval, FORGET_METRICS, keep))
        async with context.database.acquire() as conn:
            await forget_expired(conn)
            await forget_old(conn)
            await forget_old_addresses(conn)

    return Loop("expired logins", delete_expired, every_s=3600)


def unfinished_erasures(context: Context) -> Loop:
    """Return the loop that finishes the erasures of commands that were killed, or that did not wait."""
    erasers = [eraser for each in context.features.load("erasers") for eraser in each]

    async def finish() -> None:
        await finish_erasures(context.database)
        await continue_abandoned(context.database, erasers)

    return Loop("unfinished erasures", finish, every_s=30)
