"""Thousands of WebSocket clients in one process: a minimal client that connects, sends and receives frames."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import struct
from collections.abc import Callable, Sequence
from typing import cast

Heard = Callable[["Listener", bytes], None]

HANDSHAKE = (
    b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: b25jZXdhcmQgYmVuY2ggIQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
TEXT, PING, PONG = 0x81, 0x89, 0x8A
AT_ONCE = 200


class CannotConnect(Exception):
    """The server accepted fewer connections than the measurement needs."""


def allow_files(count: int) -> None:
    """Raise the limit of open files to `count`. Raise an error if the hard limit is lower."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        if hard != resource.RLIM_INFINITY and hard < count:
            raise CannotConnect(
                f"{count} open files are needed, but only {hard} are allowed: raise the limit (ulimit -Hn)"
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def frame(payload: bytes, kind: int = TEXT) -> bytes:
    """Return a client frame. It has the required mask, of zeros, which changes nothing."""
    size = len(payload)
    if size < 126:
        head = struct.pack("!BB", kind, 0x80 | size)
    elif size < 65536:
        head = struct.pack("!BBH", kind, 0x80 | 126, size)
    else:
        head = struct.pack("!BBQ", kind, 0x80 | 127, size)
    return head + b"\0\0\0\0" + payload


class Listener(asyncio.Protocol):
    """One client. It calls `heard` with each text that it receives."""

    __slots__ = ("_buffer", "_first", "_path", "_upgraded", "heard", "number", "ready", "transport")

    def __init__(self, number: int, path: str, first: Sequence[bytes], heard: Heard) -> None:
        self.number = number
        self.heard = heard
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport | None = None
        self._path = path.encode()
        self._first = first
        self._buffer = b""
        self._upgraded = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(HANDSHAKE % self._path)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ready.done():
            self.ready.set_exception(CannotConnect(f"connection {self.number} was refused"))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._upgraded:
            head, separator, rest = self._buffer.partition(b"\r\n\r\n")
            if not separator:
                return
            if not head.startswith(b"HTTP/1.1 101"):
                self._drop()
                return
            self._upgraded, self._buffer = True, rest
            for message in self._first:
                self.say(message)
            self.ready.set_result(None)
        while (text := self._take()) is not None:
            self.heard(self, text)

    def say(self, message: bytes) -> None:
        if self.transport is not None:
            self.transport.write(frame(message))

    def _drop(self) -> None:
        if self.transport is not None:
            self.transport.close()

    def _take(self) -> bytes | None:
        """Return the next text frame of the received bytes."""
        buffer = self._buffer
        while len(buffer) >= 2:
            kind, size, start = buffer[0], buffer[1], 2
            if size == 126:
                start = 4
                size = int.from_bytes(buffer[2:4], "big")
            elif size == 127:
                start = 10
                size = int.from_bytes(buffer[2:10], "big")
            if len(buffer) < start + size:
                break
            payload, buffer = buffer[start : start + size], buffer[start + size :]
            self._buffer = buffer
            if kind == TEXT:
                return payload
            if kind == PING and self.transport is not None:
                self.transport.write(frame(payload, PONG))
        return None


class Crowd:
    """Many clients of one server."""

    def __init__(self) -> None:
        self.members: list[Listener] = []

    async def gather(self, count: int, port: int, path: str, first: Sequence[bytes], heard: Heard) -> None:
        """Connect `count` clients, some at a time."""
        loop = asyncio.get_running_loop()
        for start in range(0, count, AT_ONCE):
            joining = [Listener(len(self.members) + n, path, first, heard) for n in range(min(AT_ONCE, count - start))]
            await asyncio.gather(
                *(loop.create_connection(lambda each=each: each, "127.0.0.1", port) for each in joining)
            )
            await asyncio.gather(*(each.ready for each in joining))
            self.members += joining

    async def leave(self) -> None:
        for each in self.members:
            if each.transport is not None:
                with contextlib.suppress(OSError):
                    each.transport.abort()
        self.members.clear()
        await asyncio.sleep(0)
