"""Connect to the server that accepts writes, if the database URL names several.

asyncpg tries the servers of a URL one after another within one time limit, so a server that does not answer (its host
has lost power) uses up the time and the next server is never tried. Here each further server is tried after a second,
beside the ones that have not answered yet, and the first usable connection wins.

After a failover the old primary may be frozen or unreachable: sessions to it neither answer nor fail. As only one
server accepts writes, a session to another server proves that the old sessions are useless. They are terminated, and
their users retry as after any lost connection.
"""

from __future__ import annotations

import asyncio
import socket
import time
from typing import Any
from weakref import WeakKeyDictionary

import asyncpg
import structlog

from onceward.background.tasks import spawn
from onceward.db.errors import BROKEN, FAILED
from onceward.db.held_writes import HoldingLoop
from onceward.db.transaction import Connection as Session
from onceward.settings.database_url import Server, selects_primary, servers_of, split_servers

log = structlog.get_logger(__name__)

STAGGER_S = 1.0
"""How long one server may take before the next one is tried beside it."""

WATCH_EVERY_S = 3.0
WATCH_TIMEOUT_S = 8.0

SOCKET_OPTIONS = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 30_000}
"""A session to a host that has disappeared fails after half a minute, not after the 15 minutes of the kernel's
default."""


class Servers:
    """The servers of one URL, as used by one event loop."""

    def __init__(self, url: str, *, role: str | None = None) -> None:
        """With `role`, every session acts as this role from its start, and again after `reset role`."""
        self.url = url
        self.role = role
        self.role_refused = ""
        """Why the newest session acts as its login: the role does not exist yet, or was not granted to the login."""
        self._servers = _servers(url)
        self._current: Server | None = None
        self._opened: WeakKeyDictionary[Session, Server] = WeakKeyDictionary()

    @property
    def several(self) -> bool:
        return len(self._servers) > 1 and selects_primary(self.url)

    async def connect(self, dsn: str | None = None, *, timeout: float = 10.0, **options: Any) -> Session:
        """Open a session. The signature is that of `asyncpg.connect`, which the pool calls through this method."""
        if self.role is None:
            return await self._open(timeout, options)
        settings: dict[str, str] = options.pop("server_settings", None) or {}
        try:
            conn = await self._open(timeout, {**options, "server_settings": {**settings, "role": self.role}})
        except (asyncpg.InvalidParameterValueError, asyncpg.InsufficientPrivilegeError) as error:
            if self.role not in str(error):
                raise
            self.role_refused = str(error)
            return await self._open(timeout, {**options, "server_settings": settings})
        self.role_refused = ""
        return conn

    async def _open(self, timeout: float, options: dict[str, Any]) -> Session:
        options = {**options, "loop": HoldingLoop(options.get("loop") or asyncio.get_running_loop())}
        if not self.several:
            conn = await asyncpg.connect(self.url, timeout=timeout, **options)
        else:
            server, conn = await self._race(timeout, options)
            self._opened[conn] = server
            self._use(server)
        _detect_lost_host(conn)
        return conn

    async def look(self) -> None:
        """Find out which server accepts writes, also while all sessions wait for a server that is frozen.

        A loop calls this.
        """
        try:
            conn = await self.connect(timeout=WATCH_TIMEOUT_S, statement_cache_size=0)
        except FAILED as error:
            log.debug("primary.not_found", error=type(error).__name__)
        else:
            conn.terminate()

    async def _race(self, timeout_s: float, options: dict[str, Any]) -> tuple[Server, Session]:
        waiting = sorted(self._servers, key=lambda server: server != self._current)
        deadline = time.monotonic() + timeout_s
        tasks: dict[asyncio.Task[Session], Server] = {}
        errors: list[BaseException] = []
        try:
            while (waiting or tasks) and (left_s := deadline - time.monotonic()) > 0:
                if waiting:
                    server = waiting.pop(0)
                    attempt = asyncpg.connect(
                        split_servers(self.url)[0], host=server.host, port=int(server.port), timeout=left_s, **options
                    )
                    tasks[spawn(attempt)] = server
                pause_s = min(left_s, STAGGER_S) if waiting else left_s
                done, _ = await asyncio.wait(tasks, timeout=pause_s, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    server = tasks.pop(task)
                    if (error := task.exception()) is None:
                        return server, task.result()
                    errors.append(error)
        finally:
            for task in tasks:
                task.add_done_callback(_discard)
                task.cancel()
        raise _most_telling(errors)

    def _use(self, server: Server) -> None:
        if self._current == server:
            return
        before, self._current = self._current, server
        stale = [conn for conn, other in self._opened.items() if other != server and not conn.is_closed()]
        for conn in stale:
            conn.terminate()
        if before is not None:
            log.warning("primary.changed", sessions_terminated=len(stale))


def _servers(url: str) -> list[Server]:
    try:
        return servers_of(url)
    except ValueError:
        return []  # asyncpg explains what is wrong with the URL


def _discard(task: asyncio.Task[Session]) -> None:
    if not task.cancelled() and task.exception() is None:
        task.result().terminate()


def _most_telling(errors: list[BaseException]) -> BaseException:
    """Return an error that says more than "this server is a standby" or "no connection", if there is one."""
    if not errors:
        return TimeoutError("no server answered in time")
    refused = [error for error in errors if not isinstance(error, BROKEN)]
    unmatched = [error for error in errors if isinstance(error, asyncpg.TargetServerAttributeNotMatched)]
    return (refused or unmatched or errors)[0]


def _detect_lost_host(conn: Session) -> None:
    """Let the kernel end the session if the server's host does not answer."""
    transport: asyncio.Transport = getattr(conn, "_transport")  # noqa: B009 - asyncpg has no public access to it
    sock: socket.socket | None = transport.get_extra_info("socket")
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in SOCKET_OPTIONS.items():
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
