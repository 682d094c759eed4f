"""WebSockets as uvicorn speaks them, without what it keeps of each handshake: three kilobytes a connection, never read again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

if TYPE_CHECKING:
    from websockets.frames import Frame


class LeanWebSocket(WebSocketsSansIOProtocol):
    """One connection. Once its client has said something the handshake is over."""

    def handle_text(self, event: Frame) -> None:
        self.request = self.response = cast(Any, None)
        super().handle_text(event)
