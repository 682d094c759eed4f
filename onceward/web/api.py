"""The FastAPI application with the routers of the engine and of the apps.

A package names its routers in its `feature.py`; an app adds its own with `app.routes(router)`. Paths of the engine
start with `/api/v1`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar, cast

from fastapi import APIRouter, FastAPI, Request
from fastapi.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from onceward.context import Context
from onceward.db import Database
from onceward.engine import Engine
from onceward.health import Health
from onceward.settings import Settings
from onceward.trust.secrets import secret_box
from onceward.web import auth, docs_page, idempotency, openapi, problems
from onceward.web.health import MetricsGuard, health_routes
from onceward.web.requests import RequestContext
from onceward.web.settings import WebSettings
from onceward.web.slashes import SlashRedirect

T = TypeVar("T")


def make_api(
    *,
    settings: Settings,
    database: Database,
    engine: Engine,
    health: Health,
    version: str,
    context: Context | None = None,
    routers: Iterable[APIRouter] = (),
    error_handlers: Iterable[Callable[[FastAPI], None]] = (),
) -> FastAPI:
    """Return the API with all its routes, without middleware."""
    api = FastAPI(
        title="Onceward",
        version=version,
        summary="Webhooks, jobs, messages, schedules and workflows: every effect exactly once.",
        openapi_url="/api/v1/openapi.json",
        docs_url=None,  # FastAPI loads scripts from a CDN; see docs_page.py
        redoc_url=None,
        redirect_slashes=False,
    )
    api.router.default = SlashRedirect(api.router)
    api.state.database = database
    api.state.engine = engine
    api.state.settings = settings
    api.state.context = context
    problems.install(api)
    auth.install(api)
    idempotency.install(api)
    openapi.install(api)
    docs_page.install(api)
    api.state.key_store = idempotency.KeyStore(database, lambda: secret_box(settings))
    for add in error_handlers:
        add(api)
    for route in health_routes(
        health, guard=MetricsGuard(settings.of(WebSettings).metrics_token, open_to_network=False)
    ):  # as routes of FastAPI, which names the route of a request for the metrics
        api.add_api_route(route.path, route.endpoint, include_in_schema=False)
    for router in routers:
        # Not `include_router`: FastAPI would build each route again at the first request, which then takes 0.3 s
        # longer. Our routers have no prefix, tags or dependencies that are not in their routes.
        api.router.routes.extend(router.routes)
    return api


def create_api(
    *,
    settings: Settings,
    database: Database,
    engine: Engine,
    health: Health,
    version: str,
    context: Context | None = None,
    routers: Iterable[APIRouter] = (),
    error_handlers: Iterable[Callable[[FastAPI], None]] = (),
) -> ASGIApp:
    """Return the API with its middleware. The dispatcher passes requests to it."""
    api = make_api(
        settings=settings,
        database=database,
        engine=engine,
        health=health,
        version=version,
        context=context,
        routers=routers,
        error_handlers=error_handlers,
    )
    web = settings.of(WebSettings)
    if web.cors_origins:
        api.add_middleware(
            CORSMiddleware,
            allow_origins=list(web.cors_origins),
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=["X-Request-Id", idempotency.REPLAYED],
        )
    answering = idempotency.StoredResponses(api, api.state.key_store)
    return RequestContext(
        answering,
        access_log=web.access_log,
        max_body_bytes=web.max_body_bytes,
        statement_timeout_s=web.http_statement_timeout_s,
    )


def database_of(request: Request) -> Database:
    """Return the database of this process. For `Depends`."""
    return cast(Database, request.app.state.database)


def engine_of(request: Request) -> Engine:
    """Return the engine, which enqueues work and opens transactions. For `Depends`."""
    return cast(Engine, request.app.state.engine)


def settings_of(request: Request) -> Settings:
    """Return the settings of this process. For `Depends`."""
    return cast(Settings, request.app.state.settings)


def context_of(request: Request) -> Context:
    """Return the process that answers the request. For `Depends`."""
    return cast(Context, request.app.state.context)


def part_of(kind: type[T]) -> Callable[[Request], Awaitable[T]]:
    """Return a dependency that finds the part of this type in the process. For `Depends`."""

    async def find(request: Request) -> T:
        return context_of(request).part(kind)

    return find
