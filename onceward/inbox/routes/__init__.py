"""HTTP routes of the inbox: sources and events."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter

from onceward.context import Context
from onceward.inbox.routes.events import router as events_router
from onceward.inbox.routes.sources import router as sources_router


def routers(_context: Context) -> Sequence[APIRouter]:
    return (sources_router, events_router)
