"""The FastAPI application: routers of the engine and of the apps, under one roof.

A package names its routers in its `feature.py`; an app adds its own with `app.routes(router)`. Paths of the engine start
with `/api/v1`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

from fastapi import APIRouter, FastAPI, Request
from fastapi.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from onceward.db import Database
from onceward.engine import Engine
from onceward.health import Health
from onceward.settings import Settings
from onceward.web import auth, problems
from onceward.web.health import health_router
from onceward.web.requests import RequestContext
from onceward.web.slashes import SlashRedirect


def create_api(
    *,
    settings: Settings,
    database: Database,
    engine: Engine,
    health: Health,
    version: str,
    routers: Iterable[APIRouter] = (),
    error_handlers: Iterable[Callable[[FastAPI], None]] = (),
) -> ASGIApp:
    """The API with everything that surrounds a request; mounted behind the dispatcher."""
    api = FastAPI(
        title="Onceward",
        version=version,
        summary="Webhooks, jobs, messages, schedules and workflows: every effect exactly once.",
        openapi_url="/api/v1/openapi.json",
        docs_url="/api/v1/docs",
        redoc_url=None,
        redirect_slashes=False,
    )
    api.router.default = SlashRedirect(api.router)
    api.state.database = database
    api.state.engine = engine
    api.state.settings = settings
    problems.install(api)
    auth.install(api)
    for add in error_handlers:
        add(api)
    api.include_router(health_router(health))
    for router in routers:
        api.include_router(router)
    if settings.cors_origins:
        api.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.cors_origins),
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=["X-Request-Id"],
        )
    return RequestContext(api, access_log=settings.access_log, max_body_bytes=settings.max_body_bytes)


def database_of(request: Request) -> Database:
    """For `Depends`: the database of this process."""
    return cast(Database, request.app.state.database)


def engine_of(request: Request) -> Engine:
    """For `Depends`: the engine, to enqueue and to open transactions with."""
    return cast(Engine, request.app.state.engine)


def settings_of(request: Request) -> Settings:
    """For `Depends`: the settings of this process."""
    return cast(Settings, request.app.state.settings)
