"""The parts of a process that the inbox runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from onceward.context import Context
from onceward.inbox import Inbox, UpkeepOptions
from onceward.inbox.admission import RequestLimits
from onceward.inbox.handlers import QUEUE
from onceward.inbox.settings import InboxSettings
from onceward.work.settings import WorkSettings

if TYPE_CHECKING:
    from onceward.web.asgi import Mount


def inbox(context: Context) -> Inbox:
    """Create the inbox. It runs on every node: nodes without a web server do its upkeep too."""
    frame, settings = context.settings, context.settings.of(InboxSettings)
    return Inbox(
        context.database,
        context.registry,
        context.app.handlers,
        context.engine.waker,
        open_tx=context.engine.open_tx,
        box=context.box,
        public_url=frame.public_url,
        organization_limits=RequestLimits(settings.organization_webhooks_per_s, settings.organization_webhooks_at_once),
        shares_inline=QUEUE not in frame.of(WorkSettings).unshared_queues,
        upkeep=UpkeepOptions(
            sql_claim_expiry_s=settings.sql_claim_expiry_s,
            keep=timedelta(days=frame.of(WorkSettings).retention_days),
            keep_keys=settings.keep_keys,
        ),
    )


def mounts(context: Context) -> Sequence[Mount]:
    """Mount `/webhooks` as bare ASGI, with a direct path from the HTTP parser."""
    from onceward.web.asgi import Mount
    from onceward.web.exposure import ANYTHING, NOTHING, ExposedRoute

    receiver = context.part(Inbox).receiver
    limit = "size of the body and time for it; requests of the source and its organization, per second and at once"
    exposes = (
        ExposedRoute("GET", "/webhooks/{source}", "challenge of the provider", "", NOTHING),
        ExposedRoute("POST", "/webhooks/{source}", "signature of the sender", limit, ANYTHING),
        ExposedRoute("POST", "/webhooks/payments/{provider}", "signature of the sender", limit, ANYTHING),
    )
    return (Mount("/webhooks", receiver, direct=receiver.direct, exposes=exposes),)
