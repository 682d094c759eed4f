"""HTTP routes of messages: list, show, cancel and resolve; notifications, unsubscribing, previews of templates."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter

from onceward.context import Context
from onceward.messages.routes.messages import router as messages_router
from onceward.messages.routes.notification_inbox import router as inbox_router
from onceward.messages.routes.notifications import router as notifications_router
from onceward.messages.routes.preferences import router as preferences_router
from onceward.messages.routes.push import router as push_router
from onceward.messages.routes.senders import router as senders_router


def routers(_context: Context) -> Sequence[APIRouter]:
    return (
        inbox_router,
        messages_router,
        notifications_router,
        preferences_router,
        push_router,
        senders_router,
    )
