"""A TCP proxy between the Onceward nodes and PostgreSQL that can cut, delay and hold back connections.

Each node reaches each server through a link of its own, so a fault may concern one node, one server, or one pair.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Target:
    """Where a link leads: a TCP port of this machine, or a socket file."""

    port: int = 0
    path: Path | None = None

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self.path is not None:
            return await asyncio.open_unix_connection(self.path)
        return await asyncio.open_connection("127.0.0.1", self.port)


@dataclass(slots=True, eq=False)
class Link:
    """One listening port that leads to one server. Change `delay_s`, or call `cut`, `hold` and `restore`."""

    node: str
    server: str
    target: Target
    port: int = 0
    delay_s: float = 0.0
    _flowing: asyncio.Event = field(default_factory=asyncio.Event)
    _refusing: bool = False
    _listener: asyncio.Server | None = None
    _writers: set[asyncio.StreamWriter] = field(default_factory=set[asyncio.StreamWriter])

    async def open(self) -> None:
        self._flowing.set()
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def close(self) -> None:
        self.cut()
        if self._listener is not None:
            self._listener.close()

    def cut(self) -> None:
        """Reset all connections, and refuse new ones until `restore`."""
        self._refusing = True
        self.reset()

    def reset(self) -> None:
        """Reset all connections. New ones are accepted."""
        for writer in list(self._writers):
            writer.transport.abort()

    def hold(self) -> None:
        """Accept connections and bytes, but forward nothing until `restore`."""
        self._flowing.clear()

    def restore(self) -> None:
        """Let bytes flow again. Connections that were held back are reset, as TCP does after its time limit."""
        if not self._flowing.is_set():
            self.reset()
        self._flowing.set()
        self._refusing = False
        self.delay_s = 0.0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            if self._refusing:
                return
            await self._flowing.wait()
            far_reader, far_writer = await self.target.connect()
            self._writers.add(far_writer)
            try:
                async with asyncio.TaskGroup() as pumps:
                    pumps.create_task(self._pump(reader, far_writer))
                    pumps.create_task(self._pump(far_reader, writer))
            finally:
                self._forget(far_writer)
        except* OSError:
            pass  # either side has ended the connection; `finally` ends the other side
        finally:
            self._forget(writer)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(CHUNK):
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            await self._flowing.wait()
            writer.write(chunk)
            await writer.drain()
        raise ConnectionResetError("this side has closed")  # ends the other pump too

    def _forget(self, writer: asyncio.StreamWriter) -> None:
        self._writers.discard(writer)
        with contextlib.suppress(OSError, RuntimeError):
            writer.transport.abort()


class Proxy:
    """The links of all nodes to all servers."""

    def __init__(self) -> None:
        self.links: list[Link] = []

    async def connect(self, node: str, servers: dict[str, Target]) -> list[int]:
        """Open the links of a node, and return their ports in the order of the servers."""
        links = [Link(node, name, target) for name, target in servers.items()]
        for link in links:
            await link.open()
        self.links += links
        return [link.port for link in links]

    def select(self, *, node: str | None = None, server: str | None = None) -> Iterable[Link]:
        return [link for link in self.links if node in (None, link.node) and server in (None, link.server)]

    async def close(self) -> None:
        for link in self.links:
            await link.close()
