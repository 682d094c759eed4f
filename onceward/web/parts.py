"""The parts that the web frame adds to a process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter

from onceward import __version__
from onceward.background import Loop
from onceward.context import Context
from onceward.live import QueryDefinition
from onceward.web.api import create_api, make_api
from onceward.web.asgi import Dispatcher, Mount
from onceward.web.dashboard import Site, dashboard_router, icon_router
from onceward.web.dashboard.live import part_query
from onceward.web.exposure import ExposedRoute, exposed_mounts, exposed_routes
from onceward.web.idempotency import PRUNE
from onceward.web.server import WebServer


def dashboard(context: Context) -> Site:
    return Site(context)


def expired_keys(context: Context) -> Loop:
    """Return the loop that deletes idempotency keys after 24 hours."""

    async def delete_expired() -> None:
        async with context.database.transaction(role="engine") as tx:
            await tx.execute(PRUNE)

    return Loop("expired idempotency keys", delete_expired, every_s=3600)


def routers(context: Context) -> Sequence[APIRouter]:
    return (dashboard_router(context.part(Site)),)


def queries(context: Context) -> Sequence[QueryDefinition[..., Any]]:
    return (part_query(context.part(Site)),)


def _api_options(context: Context) -> dict[str, Any]:
    routers = [router for make in context.features.load("routes") for router in make(context)]
    return {
        "settings": context.settings,
        "database": context.database,
        "engine": context.engine,
        "health": context.health,
        "version": __version__,
        "context": context,
        "routers": (*routers, *context.app.routers, icon_router(context.part(Site))),
        "error_handlers": context.features.load("error_handlers"),
    }


def route_table(context: Context) -> list[ExposedRoute]:
    """Return every route of a process with what it exposes. Raises `NotDeclared` for a route that does not declare
    it."""
    routes = [*exposed_routes(make_api(**_api_options(context)).routes), *exposed_mounts(_mounts(context))]
    return sorted(routes, key=lambda route: (route.path, route.method))


def _mounts(context: Context) -> list[Mount]:
    """Return the mounted ASGI applications of every feature."""
    return [mount for make in context.features.load("mounts") for mount in make(context)]


def server(context: Context) -> WebServer:
    """Return the server with the routes of every feature and of the app, and with the mounted ASGI applications."""
    context.features.load("metrics")  # so that /metrics shows every metric, with zero if nothing was counted
    dispatcher = Dispatcher(create_api(**_api_options(context)))
    for mount in _mounts(context):
        dispatcher.mount(mount)
    return WebServer(dispatcher, context.settings, listens=context.listens)
