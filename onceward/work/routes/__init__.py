"""HTTP routes of work: dead letters, jobs, queues, workers and the tree of consequences."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter

from onceward.context import Context
from onceward.work.routes.dead_letters import router as dead_letters_router
from onceward.work.routes.enqueue import router as producing_router
from onceward.work.routes.external import router as external_router
from onceward.work.routes.jobs import router as jobs_router
from onceward.work.routes.queues import router as queues_router
from onceward.work.routes.trace import router as trace_router


def routers(_context: Context) -> Sequence[APIRouter]:
    return (dead_letters_router, producing_router, external_router, jobs_router, queues_router, trace_router)
