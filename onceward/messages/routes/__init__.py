"""HTTP routes of messages: list, show, cancel and resolve; notifications, unsubscribing, previews of templates."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter

from onceward.context import Context
from onceward.messages.routes.messages import messages_router
from onceward.messages.routes.notifications import notifications_router


def routers(_context: Context) -> Sequence[APIRouter]:
    return (messages_router(), notifications_router())
