"""HTTP routes of the outbox: endpoints, deliveries, publishing, and the customers' portal."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter

from onceward.context import Context
from onceward.outbox import Outbox
from onceward.outbox.routes import deliveries, endpoint_actions, endpoints, event_types, resends
from onceward.outbox.routes.errors import add_error_handlers
from onceward.outbox.routes.portal import portal_router

__all__ = ["add_error_handlers", "routers"]


def routers(context: Context) -> Sequence[APIRouter]:
    modules = (event_types, endpoints, endpoint_actions, deliveries, resends)
    return (*(module.router for module in modules), portal_router(context.part(Outbox)))
