"""A very cheap receiver in its own process: it answers 200 to every POST, or never."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import Any

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Sink(asyncio.Protocol):
    """Counts bodies by Content-Length; a path that begins with /dead gets no answer."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._buffer[:end]).lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self._buffer) < end + 4 + length:
                return
            del self._buffer[: end + 4 + length]
            if not head.startswith(b"post /dead"):
                self._transport.write(ANSWER)


async def serve() -> None:
    """Listen on a free loopback port, print the port, and serve until stdin ends."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Sink, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    server.close()


if __name__ == "__main__":
    import uvloop

    with suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve())
