"""The part of a process that manages endpoints and delivers to them."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from onceward import __version__
from onceward.context import Context
from onceward.db import Database
from onceward.engine import Engine
from onceward.outbox import Catalogue, Outbox, OutboxOptions
from onceward.outbox.owners import TEMPLATE, Notice
from onceward.settings import Settings
from onceward.trust import SecretBox


def options_from(settings: Settings) -> OutboxOptions:
    """How the outbox behaves, from the settings."""
    return OutboxOptions(
        concurrency=settings.delivery_concurrency,
        retry_concurrency=max(1, settings.delivery_concurrency // 4),
        timeout_s=settings.delivery_timeout_s,
        allow_loopback_http=settings.allow_loopback_endpoints,
        user_agent=f"Onceward-Webhooks/{__version__}",
        keep=timedelta(days=settings.retention_days),
        keep_keys=timedelta(days=settings.dedupe_days),
    )


def outbox(context: Context) -> Outbox:
    """Workers deliver with it; the loops that keep endpoints in order run where there is a worker."""
    engine = context.engine
    made = Outbox(
        context.database,
        box=context.box,
        catalogue=context.app.event_types,
        options=options_from(context.settings),
        waker=engine.waker,
        upkeep="worker" in context.roles,
        tell=partial(_notify_owner, engine),
    )
    made.install(context.registry)
    context.queue_concurrency.update(made.queue_concurrency)
    return made


def outbox_for_commands(database: Database, settings: Settings, box: SecretBox, catalogue: Catalogue) -> Outbox:
    """For a command: manages endpoints, runs no loops. The caller stops it."""
    return Outbox(database, box=box, catalogue=catalogue, options=options_from(settings), upkeep=False)


async def _notify_owner(engine: Engine, notice: Notice) -> None:
    """Mail the owner of an endpoint. The key makes it one mail, however often this is tried."""
    async with engine.transaction(organization=notice.organization_id) as tx:
        await tx.send(TEMPLATE, to=notice.owner, key=notice.key, data=notice.data, channel="email")
