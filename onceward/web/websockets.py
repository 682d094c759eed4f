"""uvicorn's WebSockets with a limit on frames, and without the handshake that uvicorn keeps in memory.

The handshake takes 1.4 KiB per connection and is never read again. Each frame costs the event loop some microseconds,
and pings are answered before the client is authenticated. So frames are counted while they are parsed, a few at a time,
for the connection and for the client's address. A connection over the limit is closed with code 4429.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar, cast

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.protocol import State

from onceward.web.edge import Address, Edge, FrameBudget

if TYPE_CHECKING:
    from websockets.frames import Frame
    from websockets.http11 import Request

PIECE = 1024
"""Bytes that are parsed before the budget is checked: at most about 150 frames."""
WRITE_EXTENSION = "onceward.websocket.write"
"""The ASGI extension with `write(frame)`, for an application that sends one encoded frame to many clients."""
TOO_MANY_FRAMES = 4429
LINGER_S = 1.0
"""Seconds that a client over the limit has to read the close code."""


class LeanWebSocket(WebSocketsSansIOProtocol):
    """One connection. The first text message after the handshake frees the memory of the handshake."""

    edge: ClassVar[Edge]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._address: Address | None = None
        self._frames = FrameBudget(self.edge.limits.frames_per_s, self.edge.now)
        self._stalled_since: float | None = None
        self._is_cut_off = False

    def count_for(self, address: Address | None) -> None:
        """Count this connection and its frames for an address. Call it before `connection_made`."""
        self._address = address

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        # The next message waits until the network has accepted the whole message before it.
        self.transport.set_write_buffer_limits(high=0)
        self.edge.enter(self, self._address)

    def connection_lost(self, exc: Exception | None) -> None:
        self.edge.leave(self, self._address)
        super().connection_lost(exc)

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if not self.close_sent and not self.config.ws_per_message_deflate:
            scope = cast("dict[str, Any]", self.scope)
            scope["extensions"][WRITE_EXTENSION] = {"write": self.write}

    # -- frames --------------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        for start in range(0, len(data), PIECE):
            if self._is_cut_off or self.transport.is_closing():
                return
            self._read(data[start : start + PIECE])

    def _read(self, piece: bytes) -> None:
        self.conn.receive_data(piece)
        if self.conn.parser_exc is not None:
            self.handle_parser_exception()
            return
        if self._afford(len(self.conn.events)):
            self.handle_events()
        else:
            self._cut_off()

    def _afford(self, frames: int) -> bool:
        """Count frames for the connection and for its address; both are always charged."""
        now = self.edge.now
        address_affords = self._address is None or self._address.frames.take(frames, now)
        return self._frames.take(frames, now) and address_affords

    def _cut_off(self) -> None:
        """Close with a code and stop reading, because parsing further frames is the cost to avoid."""
        self.edge.refuse("frames")
        self._is_cut_off = True
        if not self.read_paused:
            self.transport.pause_reading()
        self.read_paused = False  # or the application's next `receive` would resume reading
        self.conn.events_received()
        reason = "too many frames"
        self.queue.put_nowait({"type": "websocket.disconnect", "code": TOO_MANY_FRAMES, "reason": reason})
        self.stop_keepalive()
        if self.handshake_complete and not self.close_sent:
            self.conn.send_close(TOO_MANY_FRAMES, reason)
            self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.close_timer = self.loop.call_later(LINGER_S, self.transport.abort)

    def write(self, frame: bytes) -> bool:
        """Write a whole unmasked frame at once. Return False without writing if a send must wait or is too late."""
        if (
            not self.writable.is_set()
            or self.conn.state is not State.OPEN
            or self.close_sent
            or self.transport.is_closing()
        ):
            return False
        self.transport.write(frame)
        return True

    def handle_text(self, event: Frame) -> None:
        if self.handshake_complete:
            self.request = self.response = cast(Any, None)
        super().handle_text(event)

    # -- time limits ---------------------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        self._stalled_since = self.edge.now
        super().pause_writing()

    def resume_writing(self) -> None:
        self._stalled_since = None
        super().resume_writing()

    def visit(self, now: float) -> None:
        """Disconnect a client that does not read; pings and the closing handshake would wait for it forever."""
        if self._stalled_since is None:
            if self.transport.is_closing() and self.transport.get_write_buffer_size():
                self._stalled_since = now
        elif now - self._stalled_since >= self.edge.limits.write_s:
            self.edge.refuse("slow_reader")
            self.transport.abort()


def websocket_protocol(edge: Edge) -> type[asyncio.Protocol]:
    """Return the class of a server's WebSocket connections."""
    return type("LimitedWebSocket", (LeanWebSocket,), {"edge": edge})
