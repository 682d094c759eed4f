"""WebSockets as uvicorn speaks them, without what it keeps of each handshake: 1.4 KiB a connection, never read again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

if TYPE_CHECKING:
    from websockets.frames import Frame


class LeanWebSocket(WebSocketsSansIOProtocol):
    """One connection. What a client says after the handshake is the occasion; it may also speak before."""

    def handle_text(self, event: Frame) -> None:
        if self.handshake_complete:
            self.request = self.response = cast(Any, None)
        super().handle_text(event)
