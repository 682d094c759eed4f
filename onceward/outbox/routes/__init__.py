"""HTTP routes of the outbox: endpoints, deliveries, publishing, and the customers' portal."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter

from onceward.context import Context
from onceward.outbox.routes import deliveries, endpoint_actions, endpoints, event_types, portal, resends
from onceward.outbox.routes.errors import add_error_handlers

__all__ = ["add_error_handlers", "routers"]


def routers(_context: Context) -> Sequence[APIRouter]:
    return tuple(each.router for each in (event_types, endpoints, endpoint_actions, deliveries, resends, portal))
