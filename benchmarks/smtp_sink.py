"""A very cheap mail relay in its own process: it accepts every mail, keeps none, and counts them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from benchmarks.measure import BenchFailed

EHLO = b"250-sink\r\n250-PIPELINING\r\n250 8BITMIME\r\n"
OK, GO_ON, BYE, UNKNOWN = b"250 2.0.0 ok\r\n", b"354 go on\r\n", b"221 2.0.0 bye\r\n", b"502 5.5.2 unknown\r\n"
END = b"\r\n.\r\n"


class SmtpSink(asyncio.Protocol):
    """One connection. A mail ends with a line of one dot."""

    mails = 0

    def __init__(self) -> None:
        self._buffer = b""
        self._in_mail = False
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._transport.write(b"220 sink ESMTP\r\n")

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        replies: list[bytes] = []
        while (end := self._buffer.find(END if self._in_mail else b"\r\n")) >= 0:
            line = self._buffer[:end]
            self._buffer = self._buffer[end + (len(END) if self._in_mail else 2) :]
            replies.append(self._answer(line))
        if replies:
            self._transport.write(b"".join(replies))
            if replies[-1] is BYE:
                self._transport.close()

    def _answer(self, line: bytes) -> bytes:
        if self._in_mail:
            self._in_mail = False
            SmtpSink.mails += 1
            return OK
        match line[:4].upper():
            case b"EHLO":
                return EHLO
            case b"MAIL" | b"RCPT" | b"RSET" | b"NOOP":
                return OK
            case b"DATA":
                self._in_mail = True
                return GO_ON
            case b"QUIT":
                return BYE
            case _:
                return UNKNOWN


@dataclass
class RunningSink:
    """A sink process. `mails` is known after it has stopped."""

    port: int
    mails: int = 0


@asynccontextmanager
async def smtp_sink() -> AsyncGenerator[RunningSink]:
    """Start a sink, and stop it at the end of the block."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.smtp_sink"), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    if process.stdout is None or not (line := await process.stdout.readline()).strip().isdigit():
        raise BenchFailed("the mail sink ended at its start")
    sink = RunningSink(int(line))
    try:
        yield sink
    finally:
        output, _ = await process.communicate(b"")
        sink.mails = int(output or 0)


async def serve() -> None:
    """Listen on a free loopback port, print the port, serve until stdin ends, and print the number of mails."""
    server = await asyncio.get_running_loop().create_server(SmtpSink, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    server.close()
    sys.stdout.write(f"{SmtpSink.mails}\n")


if __name__ == "__main__":
    import uvloop

    with suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve())
