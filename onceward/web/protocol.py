"""HTTP/1.1 as in `guard.py`, with a direct path for requests that are small and arrive at once.

uvicorn creates a scope, an event and a task for every request, and writes a response in two pieces. For a webhook this
costs more than the rest of its handling. So a mounted callable may handle a POST directly: as soon as its last byte was
read, without a task, and with one write for the response. The callable is offered only requests whose body is small and
arrives within about a second, in any number of pieces. All other requests, and those that the callable declines, take
the usual path through ASGI.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from onceward.web.asgi import Dispatcher
from onceward.web.edge import Edge
from onceward.web.guard import BETWEEN, BODY, HEAD, GuardedProtocol, RequestRefused

Pairs = list[tuple[bytes, bytes]]

MOST_HELD_BYTES = 64 * 1024
"""The largest part of a body that is held back: as much as uvicorn buffers before it stops reading."""
HELD_S = 1.0
"""A body that takes longer goes to the application piece by piece, which limits its time."""


class TakesWhole(Protocol):
    """Handles a request directly, or returns False to decline it.

    If it returns True, it calls `reply` exactly once, immediately or later. The arguments of `reply` are the status,
    the headers as lines that end in CRLF, and the body.
    """

    def __call__(self, path: str, headers: Pairs, body: bytes, reply: Callable[[int, bytes, bytes], None]) -> bool: ...


class _Silent:
    """An event for which nothing waits."""

    def set(self) -> None: ...


class _Turn:
    """The attributes that uvicorn reads to learn whether a response of this connection is outstanding."""

    message_event: ClassVar[_Silent] = _Silent()
    __slots__ = ("disconnected", "keep_alive", "response_complete")

    def __init__(self) -> None:
        self.disconnected = False
        self.keep_alive = True
        self.response_complete = True


class DirectProtocol(GuardedProtocol):
    """One connection. It holds back a request for the direct path until the last byte of the request was read."""

    prefix: ClassVar[bytes] = b""
    direct: ClassVar[TakesWhole]
    _own: ClassVar[tuple[object, bytes]] = (None, b"")
    """The list of default headers and the lines made from it. uvicorn creates a new list every second."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._held: bytes | None = None
        self._turn = _Turn()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._held is not None and len(self._held) > MOST_HELD_BYTES:
            self._release()

    def visit(self, now: float) -> None:
        if self._held is not None and now - self._since >= HELD_S:
            self._release()
        super().visit(now)

    def _release(self) -> None:
        """Let a large or slow request take the usual path, which limits its size and time."""
        try:
            self._take_usual_path()
        except RequestRefused:
            self._refuse_noted()

    def on_headers_complete(self) -> None:
        self._check_head()
        if self._upgrade is None:
            cycle = cast(Any, self.cycle)
            parser = cast(Any, self.parser)
            if (
                self.url.startswith(self.prefix)
                and (cycle is None or cycle.response_complete)
                and parser.get_method() == b"POST"
                and not self.expect_100_continue
                and parser.should_keep_alive()
                and b"%" not in self.url
                and b"?" not in self.url
                and self.url.isascii()
            ):
                self._held = b""
            else:
                self._begin()
        self._part = BODY

    def on_body(self, body: bytes) -> None:
        if self._held is None:
            super().on_body(body)
        else:
            self._got_body = True
            self._held = self._held + body if self._held else body

    def on_message_complete(self) -> None:
        body = self._held
        if body is None:
            super().on_message_complete()
            return
        self._part = BETWEEN
        self._finished_one = True
        turn = self._turn
        turn.response_complete = False
        before, self.cycle = self.cycle, cast(Any, turn)
        if type(self).direct(self.url.decode("ascii"), self.headers, body, self._reply):
            self._held = None
            return
        turn.response_complete = True
        self.cycle = before
        self._take_usual_path()
        super().on_message_complete()

    def _take_usual_path(self) -> None:
        body, self._held = self._held, None
        if self.transport.is_closing():
            return
        self._part = HEAD
        self._begin()
        self._part = BODY
        if body:
            super().on_body(body)

    def _drop_unfinished(self) -> bool:
        if self._held is None:
            return super()._drop_unfinished()
        self._held = None
        return False

    def _reply(self, status: int, head: bytes, body: bytes) -> None:
        turn = self._turn
        if turn.disconnected or self.transport.is_closing():
            return
        source, own = DirectProtocol._own
        if source is not self.server_state.default_headers:
            source = self.server_state.default_headers
            own = b"".join([b"%b: %b\r\n" % pair for pair in source])
            DirectProtocol._own = (source, own)
        closing = b"" if turn.keep_alive else b"connection: close\r\n"
        self.transport.write(b"".join((STATUS_LINE[status], own, head, closing, b"\r\n", body)))
        turn.response_complete = True
        if not turn.keep_alive:
            self.transport.close()
        self.on_response_complete()


def protocol(asgi: object, edge: Edge) -> type[asyncio.Protocol]:
    """Return the class of a server's connections, with the direct path if the application has one."""
    members: dict[str, Any] = {"edge": edge}
    if not isinstance(asgi, Dispatcher) or asgi.direct is None:
        return type("LimitedProtocol", (GuardedProtocol,), members)
    prefix, direct = asgi.direct
    members |= {"prefix": f"{prefix}/".encode(), "direct": staticmethod(direct)}
    return type("MountedProtocol", (DirectProtocol,), members)
