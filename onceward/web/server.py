"""Listen on a port and serve the dispatcher with uvicorn, in the event loop of the process."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Generator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from onceward.background import Loop
from onceward.errors import OncewardError
from onceward.settings import Settings
from onceward.telemetry import get_logger
from onceward.web.edge import Edge, EdgeLimits
from onceward.web.protocol import protocol
from onceward.web.settings import WebSettings
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
            ws_max_size=settings.of(WebSettings).max_body_bytes,
            loop="none",
            server_header=False,
            headers=[("x-content-type-options", "nosniff")],  # on every response, those of mounts and errors too
            proxy_headers=True,
            forwarded_allow_ips=list(settings.trusted_proxies),
            timeout_graceful_shutdown=max(1, round(settings.shutdown_grace_s)),
        )
        self._config = config
        self._server = _QuietServer(config)
        self._listener: socket.socket | None = None
        self._loop = Loop("web", self._serve)
        self.port = settings.port

    async def start(self) -> None:
        if not self._listens:
            return
        self._listener = self._bind(self._settings.port)
        self.port = self._listener.getsockname()[1]
        await self._loop.start()
        while not self._server.started:
            if self._loop.failures:
                await self._loop.stop()
                raise CannotListen(f"the web server stopped during its start: {self._loop.error}")
            await asyncio.sleep(0.005)
        log.info(
            "web_server.started",
            url=self.url,
            max_connections=min(self._edge.limits.connections, self._edge.descriptors),
        )

    async def stop(self) -> None:
        if self._loop.task is not None:
            self._server.should_exit = True
            self._loop.leave()
            await asyncio.wait({self._loop.task})
            self._edge.close()

    async def _serve(self) -> None:
        """Serve until `stop`. After a failure it listens on the same port again."""
        listener, self._listener = self._listener or self._bind(self.port), None
        try:
            self._server = _QuietServer(self._config)
            await self._server.serve(sockets=[listener])
        finally:
            for each in getattr(self._server, "servers", ()):  # open only after a failure
                each.close()
            listener.close()

    @property
    def url(self) -> str:
        """Return the URL of the server for a client on this machine."""
        host = "127.0.0.1" if self._settings.host in ("0.0.0.0", "::", "") else self._settings.host
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def _bind(self, port: int) -> socket.socket:
        return listen(self._settings, port, backlog=self._edge.backlog)


class HealthServer(WebServer):
    """The server of a process without the role `web`: it answers probes and shows metrics, nothing else."""

    def _bind(self, port: int) -> socket.socket:
        return listen(self._settings, port, backlog=self._edge.backlog, setting="ONCEWARD_HEALTH_PORT")


def listen(settings: Settings, port: int, *, backlog: int, setting: str = "ONCEWARD_PORT") -> socket.socket:
    """Return a listening socket at the configured host, or raise `CannotListen`."""
    host = settings.host
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=backlog)
    except OSError as error:
        raise CannotListen(
            f"cannot listen on {host}:{port}: {os.strerror(error.errno or 0)}; "
            f"stop the process that uses the port, or set {setting} (and ONCEWARD_HOST)"
        ) from error
    # Accepted connections inherit it. Otherwise, on the event loop of asyncio, the body of an answer waits 40 ms for
    # the client to acknowledge the head: asyncio sets it only on sockets that it creates, uvloop on all.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def check_address(settings: Settings) -> None:
    """Raise `CannotListen` if the configured address is in use now, before the rest of the process starts."""
    if settings.port != 0:
        listen(settings, settings.port, backlog=1).close()
