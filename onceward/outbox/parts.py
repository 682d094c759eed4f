"""The part of a process that manages endpoints and delivers to them."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from onceward import __version__
from onceward.db import Database
from onceward.inbox.settings import InboxSettings
from onceward.outbox import Catalogue, Outbox, OutboxOptions
from onceward.outbox.owners import TEMPLATE, Notice
from onceward.outbox.settings import OutboxSettings
from onceward.settings import Settings
from onceward.trust import SecretBox
from onceward.work.settings import WorkSettings

if TYPE_CHECKING:
    from onceward.context import Context
    from onceward.engine import Engine


def options_from(settings: Settings) -> OutboxOptions:
    """Return the options of the outbox that the settings define."""
    own = settings.of(OutboxSettings)
    return OutboxOptions(
        concurrency=own.delivery_concurrency,
        retry_concurrency=max(1, own.delivery_concurrency // 4),
        timeout_s=own.delivery_timeout_s,
        allow_loopback_http=settings.allow_loopback_endpoints,
        user_agent=f"Onceward-Webhooks/{__version__}",
        keep=timedelta(days=settings.of(WorkSettings).retention_days),
        keep_keys=settings.of(InboxSettings).keep_keys,
    )


def outbox(context: Context) -> Outbox:
    """Create the outbox of a process. Its maintenance loops run only in processes with the role `worker`."""
    engine = context.engine
    created = Outbox(
        context.database,
        box=context.box,
        catalogue=context.app.event_types,
        options=options_from(context.settings),
        waker=engine.waker,
        upkeep="worker" in context.roles,
        tell=partial(_notify_owner, engine),
    )
    created.install(context.registry)
    engine.endpoints = created.endpoints
    context.queue_concurrency.update(created.queue_concurrency)
    return created


def outbox_for_commands(database: Database, settings: Settings, box: SecretBox, catalogue: Catalogue) -> Outbox:
    """Create an outbox for a command. It runs no loops; the caller closes its client."""
    return Outbox(database, box=box, catalogue=catalogue, options=options_from(settings), upkeep=False)


async def _notify_owner(engine: Engine, notice: Notice) -> None:
    """Send a mail to the owner of an endpoint. The key of the notice makes retries send one mail."""
    async with engine.transaction(organization=notice.organization_id) as tx:
        await tx.send(TEMPLATE, to=notice.owner, key=notice.key, data=notice.data, channel="email")
