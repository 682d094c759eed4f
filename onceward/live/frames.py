"""Send frames to the connections whose results changed, a few at a time and with results that belong together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from onceward.live import metrics
from onceward.live.outgoing_text import OutgoingText

if TYPE_CHECKING:
    from onceward.live.connection import Connection
    from onceward.live.group import Group
    from onceward.live.interests import Follow, LiveSubscription

HOLD_S = 0.1
"""How long results wait for other results of the same client, so that one frame carries them together."""
SLICE = 250
MOST_SHARED = 64
"""The maximum number of frames that are kept for other clients while frames are sent."""


class FrameSender:
    """The connections of a node that have something to send."""

    def __init__(self) -> None:
        self.sent = 0
        """The number of frames that connections have sent since they were last counted."""
        self._changed: set[Connection] = set()
        self._shared: dict[tuple[Group, str | None, int, str | None, str, str], OutgoingText] = {}
        self._timer: asyncio.TimerHandle | None = None

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def mark_all(self, interests: Iterable[LiveSubscription | Follow]) -> None:
        """Mark subscriptions or follows, and with them their connections, as changed. There may be thousands."""
        changed = self._changed
        for interest in interests:
            connection = interest.connection
            connection.dirty[interest] = None
            changed.add(connection)

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
        changed = self._changed
        ready = [each for each in connections if each in changed and each.settled()]
        changed.difference_update(ready)
        self._send(ready)
        if self._changed and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(HOLD_S, self._send_held)

    def _send_held(self) -> None:
        self._timer = None
        changed, self._changed = self._changed, set()
        self._send(list(changed))

    def _send(self, connections: list[Connection], start: int = 0) -> None:
        """Send to `SLICE` connections at a time, so that a group with many subscribers does not block the event
        loop."""
        for connection in connections[start : start + SLICE]:
            connection.flush()
        metrics.FRAMES.inc(self.sent)
        self.sent = 0
        if start + SLICE < len(connections):
            asyncio.get_running_loop().call_soon(self._send, connections, start + SLICE)
        else:
            self._shared.clear()

    def with_result(self, group: Group, id: int, has: str | None, before: str, version: str) -> OutgoingText:
        """Return the frame that brings a client with subscription `id` from one version to the next.

        Subscribers of a group that had the same version and result (`has`) get the same frame, encoded once.
        """
        key = (group, group.hash, id, has, before, version)
        frame = self._shared.get(key)
        if frame is None:
            text = f'{{"type":"frame","from":"{before}","to":"{version}","results":[{group.result_text(id, has)}]}}'
            frame = OutgoingText(text)
            if len(group.subscribers) > 1:
                if len(self._shared) >= MOST_SHARED:
                    self._shared.clear()
                self._shared[key] = frame
        return frame
