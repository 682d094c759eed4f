"""HTTP routes of the outbox: endpoints, deliveries, publishing, and the customers' portal."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter

from onceward.context import Context
from onceward.outbox import Outbox
from onceward.outbox.routes.api import outbound_router
from onceward.outbox.routes.errors import add_error_handlers
from onceward.outbox.routes.portal import portal_router

__all__ = ["add_error_handlers", "routers"]


def routers(context: Context) -> Sequence[APIRouter]:
    outbox = context.part(Outbox)
    return (outbound_router(outbox), portal_router(outbox))
