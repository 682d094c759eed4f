"""Onceward inside an existing FastAPI application: one process, one connection pool, a transaction per request.

    mounted = Mounted(app)                       # app is an `Onceward`
    api = FastAPI(lifespan=mounted.lifespan)

    @api.post("/orders/{order}")
    async def place(order: int, tx: RequestTx) -> dict[str, int]:
        await tx.execute("insert into orders (id) values ($1)", order)
        return {"job": (await tx.enqueue(pack, order=order)).id}

    api.mount("/", mounted)                      # last: webhooks, dashboard and API at all other paths

The limits on connections, headers and slow clients (docs/security.md) belong to Onceward's own server. Under another
server, configure them there.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from onceward import __version__
from onceward.app import Onceward
from onceward.engine import Engine
from onceward.errors import OncewardError
from onceward.feature import EVERY_ROLE, Role
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import Settings, load_settings
from onceward.telemetry import configure_logging
from onceward.tx import Tx

__all__ = [
    "Mounted",
    "NotRunning",
    "RequestTx",
    "open_transaction",
]


class NotRunning(OncewardError):
    """Onceward does not run in this application. The message says what is missing."""


class Mounted:
    """An Onceward app in the process of a FastAPI application. It is an ASGI application to mount at `/`."""

    def __init__(self, app: Onceward, *, settings: Settings | None = None, roles: Iterable[Role] = EVERY_ROLE) -> None:
        """Settings come from the environment if none are given. `roles={"web"}` leaves the work to other processes."""
        self._app = app
        self._settings = settings
        self._roles = frozenset(roles)
        self._process: Process | None = None

    @property
    def engine(self) -> Engine:
        """Return the engine, which enqueues work and opens transactions. `engine.db` is the pool of the process."""
        if self._process is None or self._process.engine is None:
            raise NotRunning(
                "Onceward is not running: pass `lifespan=mounted.lifespan` to FastAPI, or enter it in yours"
            )
        return self._process.engine

    @asynccontextmanager
    async def lifespan(self, api: FastAPI) -> AsyncGenerator[None]:
        """Open the database, apply pending migrations and start the parts; stop them at the end."""
        settings = self._settings or load_settings(FEATURES.plus(self._app.features()).settings)
        if not logging.getLogger().handlers:  # the application has not configured any
            identity = {"service": settings.service, "environment": settings.environment, "version": __version__}
            configure_logging(level=settings.log_level, format=settings.log_format, **identity)
        process = Process(self._app, settings, FEATURES, listens=False)
        await process.start(self._roles)
        self._process = process
        api.state.onceward = self
        try:
            yield
        finally:
            self._process = None
            await process.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._dispatcher()(scope, receive, send)

    def _dispatcher(self) -> ASGIApp:
        if self._process is None:
            raise NotRunning("Onceward is not running: the lifespan of the application has not started")
        if self._process.web is None:
            raise NotRunning("Onceward serves no requests here: its roles do not include 'web'")
        return self._process.web.asgi


async def open_transaction(request: Request) -> AsyncGenerator[Tx]:
    """Open a transaction for one request. It is committed when the route returns, and rolled back when it raises."""
    mounted: Any = getattr(request.app.state, "onceward", None)
    if not isinstance(mounted, Mounted):
        raise NotRunning("Onceward is not running: pass `lifespan=mounted.lifespan` to FastAPI, or enter it in yours")
    async with mounted.engine.transaction() as tx:
        yield tx


# "function": the commit comes before the response. The default would answer first, and a failed commit would be a
# success.
RequestTx = Annotated[Tx, Depends(open_transaction, scope="function")]
"""The transaction of a request, as a parameter of a route: `async def place(tx: RequestTx)`."""
