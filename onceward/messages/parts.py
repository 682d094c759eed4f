"""Factories for the part of a process that sends messages, and for the live query of notifications."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from onceward.context import Context
from onceward.live import Query, QueryDefinition
from onceward.messages import notification_inbox

if TYPE_CHECKING:
    from onceward.messages.service import MessageService

LATEST = 20


def channels(context: Context) -> MessageService:
    from onceward.inbox.callbacks import StatusCallbacks
    from onceward.messages.service import MessageService
    from onceward.messages.template_check import check_templates

    engine = context.engine
    if context.registry.template_folders:  # the built-in templates are known to be complete
        check_templates(engine.templates)
    return MessageService(
        context.database,
        context.settings,
        engine.templates,
        context.registry,
        waker=engine.waker,
        services=context.app.services,
        report_address=lambda service: StatusCallbacks(context.database, service).url,
    )


def queries(_context: Context) -> Sequence[QueryDefinition[..., Any]]:
    return (QueryDefinition(notifications, name="notifications", parameter="q", allow="user", per="user"),)


async def notifications(q: Query) -> dict[str, Any]:
    """Return the latest notifications of the signed-in user, and the number of unread ones."""
    q.ignore("onceward.dashboard_messages")  # no trigger watches the table; it is read again after two seconds
    q.stale_after(2)
    own = [] if q.principal is None else [q.principal.ref]
    messages = await notification_inbox.list_inbox(q, own, organization=q.organization, limit=LATEST)
    unread = await notification_inbox.count_unread(q, own, organization=q.organization)
    return {"unread": unread, "latest": [asdict(each) for each in messages]}
