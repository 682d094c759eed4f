"""Send frames to the connections whose results changed, a few at a time and with results that belong together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from onceward.live import metrics

if TYPE_CHECKING:
    from onceward.live.connection import Connection, Follow, LiveSubscription

HOLD_S = 0.1
"""How long results wait for other results of the same client, so that one frame carries them together."""
SLICE = 250


class FrameSender:
    """The connections of a node that have something to send."""

    def __init__(self) -> None:
        self.sent = 0
        """The number of frames that connections have sent since they were last counted."""
        self._changed: set[Connection] = set()
        self._timer: asyncio.TimerHandle | None = None

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def mark(self, interest: LiveSubscription | Follow) -> None:
        """Mark a subscription or follow, and with it its connection, as changed."""
        interest.connection.mark(interest)
        self._changed.add(interest.connection)

    def add(self, connections: Iterable[Connection]) -> None:
        """Mark connections as changed, without a change of a subscription or follow."""
        self._changed.update(connections)

    def send_all_ready(self) -> None:
        """Send frames to all changed connections that wait for no other result."""
        self.send_ready(list(self._changed))

    def send_ready(self, connections: Iterable[Connection]) -> None:
        """Send frames to those of these connections that changed and wait for no other result.

        All other changed connections get their frame after `HOLD_S`.
        """
        ready = [each for each in connections if each in self._changed and each.settled()]
        self._changed.difference_update(ready)
        self._send(ready)
        if self._changed and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(HOLD_S, self._send_held)

    def _send_held(self) -> None:
        self._timer = None
        changed, self._changed = self._changed, set()
        self._send(list(changed))

    def _send(self, connections: list[Connection], start: int = 0) -> None:
        """Send to `SLICE` connections at a time, so that a group with many subscribers does not block the event loop."""
        for connection in connections[start : start + SLICE]:
            connection.flush()
        metrics.FRAMES.inc(self.sent)
        self.sent = 0
        if start + SLICE < len(connections):
            asyncio.get_running_loop().call_soon(self._send, connections, start + SLICE)
