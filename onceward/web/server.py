"""Listen on a port and serve the dispatcher with uvicorn, in the event loop of the process."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Generator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from onceward.errors import OncewardError
from onceward.settings import Settings
from onceward.telemetry import get_logger
from onceward.web.edge import Edge, EdgeLimits
from onceward.web.protocol import protocol
from onceward.web.websockets import websocket_protocol

log = get_logger("onceward.web")


class CannotListen(OncewardError):
    """The address is in use or does not belong to this machine. The message says what to do."""


class _QuietServer(uvicorn.Server):
    """A server that handles no signals: the process handles them, because it also stops workers."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


class WebServer:
    """A part: `start()` returns when the server accepts requests, `stop()` when it has answered the last one."""

    def __init__(self, asgi: ASGIApp, settings: Settings, *, listens: bool = True) -> None:
        """With `listens=False` it opens no port, and another server calls `asgi`."""
        self.asgi = asgi
        self._listens = listens
        self._settings = settings
        self._edge = Edge(EdgeLimits.of(settings))
        config = uvicorn.Config(
            asgi,
            log_config=None,
            access_log=False,
            lifespan="off",
            http=protocol(asgi, self._edge),
            ws=websocket_protocol(self._edge),
            ws_per_message_deflate=False,  # its buffers would take most of the memory of an idle connection
            ws_max_size=settings.max_body_bytes,
            loop="none",
            server_header=False,
            proxy_headers=True,
            forwarded_allow_ips=list(settings.trusted_proxies),
            timeout_graceful_shutdown=max(1, round(settings.shutdown_grace_s)),
        )
        self._server = _QuietServer(config)
        self._serving: asyncio.Task[None] | None = None
        self.port = settings.port

    async def start(self) -> None:
        if not self._listens:
            return
        listener = self._bind()
        self.port = listener.getsockname()[1]
        self._serving = asyncio.create_task(self._server.serve(sockets=[listener]), name="web")
        while not self._server.started:
            if self._serving.done():
                await self._serving
                raise CannotListen("the web server stopped during its start")
            await asyncio.sleep(0.005)
        log.info(
            "web_server.started",
            url=self.url,
            max_connections=min(self._edge.limits.connections, self._edge.descriptors),
        )

    async def stop(self) -> None:
        if self._serving is not None:
            self._server.should_exit = True
            await self._serving
            self._serving = None
            self._edge.close()

    @property
    def url(self) -> str:
        """Return the URL of the server for a client on this machine."""
        host = "127.0.0.1" if self._settings.host in ("0.0.0.0", "::", "") else self._settings.host
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def _bind(self) -> socket.socket:
        return listen(self._settings, backlog=self._edge.backlog)


class HealthServer(WebServer):
    """The server of a process without the role `web`: it answers probes and shows metrics, nothing else."""

    def _bind(self) -> socket.socket:
        return listen(self._settings, backlog=self._edge.backlog, setting="ONCEWARD_HEALTH_PORT")


def listen(settings: Settings, *, backlog: int, setting: str = "ONCEWARD_PORT") -> socket.socket:
    """Return a listening socket at the configured address, or raise `CannotListen`."""
    host, port = settings.host, settings.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=backlog)
    except OSError as error:
        raise CannotListen(
            f"cannot listen on {host}:{port}: {os.strerror(error.errno or 0)}; "
            f"stop the process that uses the port, or set {setting} (and ONCEWARD_HOST)"
        ) from error
    # Accepted connections inherit it. Otherwise, on the event loop of asyncio, the body of an answer waits 40 ms for the
    # client to acknowledge the head: asyncio sets it only on sockets that it creates, uvloop on all.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def check_address(settings: Settings) -> None:
    """Raise `CannotListen` if the configured address is in use now, before the rest of the process starts."""
    if settings.port != 0:
        listen(settings, backlog=1).close()
