"""Refuse, in the whole process of a command, what does not belong to the command itself.

A handler can start what has none of its context: a thread of a library in C, or of a pool that is older than the
rehearsal. So in a guarded process, only the command's own tasks may connect, and only to the database.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

from onceward.settings.database_url import servers_of

Address = tuple[str, int | None]
"""A host and a port, or the path of a Unix socket without a port."""

OWN: ContextVar[bool] = ContextVar("belongs to the command", default=False)


class _Process:
    """The guard of this process. It is process-wide, like the audit hook that asks it."""

    def __init__(self) -> None:
        self.is_on = False
        self.calls: object | None = None
        """The calls of the rehearsal that runs, to which a call of an unknown thread is added."""
        self.servers: frozenset[Address] | None = None
        """The servers of the database, or None while the command opens it."""

    def limit_to(self, database_url: str) -> None:
        """Let the command itself connect only to the servers of this URL from now on."""
        self.servers = frozenset((server.host, int(server.port)) for server in servers_of(database_url))

    def allows(self, event: str, arguments: tuple[Any, ...]) -> bool:
        """Return whether this is what the command itself does for its database."""
        if self.servers is None:
            return OWN.get() or event == "socket.getaddrinfo"
        match event:
            case "socket.getaddrinfo":  # in a thread of the event loop, without the context of the command
                return name_of(arguments[0]) in {host for host, _ in self.servers}
            case "socket.connect" | "socket.sendto" | "socket.sendmsg":
                if arguments[1] is None:
                    return True
                host, port = address_of(arguments[1])
                if port is None:
                    return OWN.get() and any(_is_socket_of(host, server) for server in self.servers)
                return OWN.get() and port in {number for _, number in self.servers}
            case _:
                return OWN.get()


PROCESS = _Process()


@contextmanager
def guarding() -> Generator[_Process]:
    """Refuse in this process what does not belong to the block or to the tasks that it starts."""
    from onceward.rehearsal.outside_calls import install

    install()
    OWN.set(True)
    PROCESS.is_on, PROCESS.servers = True, None
    try:
        yield PROCESS
    finally:
        PROCESS.is_on = False


@contextmanager
def rehearsing(calls: object) -> Generator[None]:
    """Add the calls of unknown threads to these."""
    PROCESS.calls = calls
    try:
        yield
    finally:
        PROCESS.calls = None


def address_of(address: Any) -> Address:
    """Return the host and port of a socket's address, or the path of a Unix socket."""
    if isinstance(address, tuple):
        parts = cast("tuple[Any, ...]", address)
        port = parts[1] if len(parts) > 1 and isinstance(parts[1], int) else None
        return (str(parts[0]) if parts else "", port)
    return (address.decode(errors="replace") if isinstance(address, bytes) else str(address), None)


def name_of(host: Any) -> str:
    """Return a host name, or that of a socket's address."""
    first = cast("tuple[Any, ...]", host)[0] if isinstance(host, tuple) else host
    return first.decode(errors="replace") if isinstance(first, bytes) else str(first)


def _is_socket_of(path: str, server: Address) -> bool:
    host, port = server
    return host.startswith("/") and path in (f"{host.rstrip('/')}/.s.PGSQL.{port}", host)
