"""A text on its way to clients, encoded once however many clients get it."""

from __future__ import annotations

import struct

TEXT_FRAME = 0x81
"""The first byte of a WebSocket frame that holds a whole text message."""


class OutgoingText:
    """A message to clients as text, and as a WebSocket frame of a server."""

    __slots__ = ("_frame", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._frame: bytes | None = None

    @property
    def frame(self) -> bytes:
        """The whole WebSocket frame, without compression. A server's frames have no mask, so all clients get the
        same."""
        if self._frame is None:
            payload = self.text.encode()
            self._frame = _head(len(payload)) + payload
        return self._frame


def _head(size: int) -> bytes:
    if size < 126:
        return struct.pack("!BB", TEXT_FRAME, size)
    if size < 65536:
        return struct.pack("!BBH", TEXT_FRAME, 126, size)
    return struct.pack("!BBQ", TEXT_FRAME, 127, size)
