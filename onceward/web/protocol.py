"""HTTP/1.1 as `guard.py` speaks it, with a short way for requests that arrive whole.

uvicorn makes a scope, an event and a task for every request, and writes an answer in two pieces. For a webhook that
is more than all the rest of its handling. So a mounted callable may take a POST directly: as soon as its last byte was
read, without a task, and with an answer written at once. Only requests that were read in one piece are offered; any
other, and any it declines, goes on as if nothing had happened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from onceward.web.asgi import Dispatcher
from onceward.web.edge import Edge
from onceward.web.guard import BETWEEN, BODY, HEAD, GuardedProtocol, Refused

Pairs = list[tuple[bytes, bytes]]


class TakesWhole(Protocol):
    """Returns whether it takes the request; if so it calls `reply` once, later or at once.

    The reply is its status, its headers as lines that end in CRLF, and its body.
    """

    def __call__(self, path: str, headers: Pairs, body: bytes, reply: Callable[[int, bytes, bytes], None]) -> bool: ...


class _Silent:
    """Stands where nobody waits for an event."""

    def set(self) -> None: ...


class _Turn:
    """What uvicorn looks at to learn whether this connection has an answer outstanding."""

    message_event: ClassVar[_Silent] = _Silent()
    __slots__ = ("disconnected", "keep_alive", "response_complete")

    def __init__(self) -> None:
        self.disconnected = False
        self.keep_alive = True
        self.response_complete = True


class DirectProtocol(GuardedProtocol):
    """One connection. A request that is offered directly is held back until its last byte was read."""

    prefix: ClassVar[bytes] = b""
    direct: ClassVar[TakesWhole]
    _own: ClassVar[tuple[object, bytes]] = (None, b"")
    """The server's own headers as lines, next to the list they were made of: uvicorn makes a new one every second."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._held: bytes | None = None
        self._turn = _Turn()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._held is not None:
            # The rest is still to come: how large and how slow it may be is the long way's business.
            try:
                self._go_the_long_way()
            except Refused:
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
        self._go_the_long_way()
        super().on_message_complete()

    def _go_the_long_way(self) -> None:
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
        made_of, own = DirectProtocol._own
        if made_of is not self.server_state.default_headers:
            made_of = self.server_state.default_headers
            own = b"".join([b"%b: %b\r\n" % pair for pair in made_of])
            DirectProtocol._own = (made_of, own)
        closing = b"" if turn.keep_alive else b"connection: close\r\n"
        self.transport.write(b"".join((STATUS_LINE[status], own, head, closing, b"\r\n", body)))
        turn.response_complete = True
        if not turn.keep_alive:
            self.transport.close()
        self.on_response_complete()


def protocol(asgi: object, edge: Edge) -> type[asyncio.Protocol]:
    """Return the class of a server's connections: with a short way, if the application has one."""
    members: dict[str, Any] = {"edge": edge}
    if not isinstance(asgi, Dispatcher) or asgi.direct is None:
        return type("LimitedProtocol", (GuardedProtocol,), members)
    prefix, direct = asgi.direct
    members |= {"prefix": f"{prefix}/".encode(), "direct": staticmethod(direct)}
    return type("MountedProtocol", (DirectProtocol,), members)
