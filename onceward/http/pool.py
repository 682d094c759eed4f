"""The connections of a client: their limits, the idle ones, and the deadlines of requests."""

from __future__ import annotations

import asyncio
from collections import deque

from .wire import Wire

Key = tuple[str, str, int, str]
"""Scheme, host, port and the name of the client certificate ("": none). Connections with the same key are
interchangeable."""


class Deadlines:
    """One timer for all active requests, set for the earliest deadline.

    Most requests are answered long before their deadline, so a timer for each would be wasted.
    """

    def __init__(self) -> None:
        self._wires: set[Wire] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._at = 0.0

    def add(self, wire: Wire, deadline: float) -> None:
        wire.deadline = deadline
        self._wires.add(wire)
        if self._timer is None or deadline < self._at:
            self._set(deadline)

    def remove(self, wire: Wire) -> None:
        self._wires.discard(wire)

    def close(self) -> None:
        """Stop the timer unless requests are active; those keep their deadlines."""
        if self._timer is not None and not self._wires:
            self._timer.cancel()
            self._timer = None

    def _set(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._at = at
        self._timer = asyncio.get_running_loop().call_at(at, self._expire)

    def _expire(self) -> None:
        self._timer = None
        # The loop's clock may be slightly behind the time that the timer was set for.
        now = max(asyncio.get_running_loop().time(), self._at)
        for wire in [each for each in self._wires if each.deadline <= now]:
            self._wires.discard(wire)
            wire.expire()
        if self._wires:
            self._set(min(wire.deadline for wire in self._wires))


class ConnectionPool:
    """Open connections by host. Their number is limited in total and per host; further callers wait."""

    def __init__(self, *, most: int, per_host: int, keepalive_s: float) -> None:
        self._total = asyncio.Semaphore(most)
        self._most = most
        self._per_host = per_host
        self._hosts: dict[Key, tuple[asyncio.Semaphore, list[int]]] = {}
        self._keepalive_s = keepalive_s
        self._idle: dict[Key, deque[Wire]] = {}
        self._idle_count = 0
        self._reaper: asyncio.TimerHandle | None = None

    def has_room(self, key: Key) -> bool:
        """Whether `enter` would return at once."""
        if self._total.locked():
            return False
        known = self._hosts.get(key)
        return known is None or not known[0].locked()

    async def enter(self, key: Key) -> None:
        """Wait until a connection is allowed; `leave` releases it."""
        if self._per_host:
            gate, users = self._hosts.setdefault(key, (asyncio.Semaphore(self._per_host), [0]))
            users[0] += 1
            try:
                await gate.acquire()
            except BaseException:
                self._forget(key)
                raise
        try:
            await self._total.acquire()
        except BaseException:
            if self._per_host:
                self._hosts[key][0].release()
                self._forget(key)
            raise

    def leave(self, key: Key) -> None:
        self._total.release()
        if self._per_host:
            self._hosts[key][0].release()
            self._forget(key)

    def _forget(self, key: Key) -> None:
        users = self._hosts[key][1]
        users[0] -= 1
        if users[0] == 0:
            del self._hosts[key]

    def take(self, key: Key, now: float) -> Wire | None:
        """Return the idle connection that was used last, or None if the caller must open one."""
        idle = self._idle.get(key)
        while idle:
            wire = idle.pop()
            self._idle_count -= 1
            if not wire.closed:
                if now - wire.idle_since < self._keepalive_s:
                    return wire
                wire.close()
        if idle is not None:
            del self._idle[key]
        return None

    def give_back(self, key: Key, wire: Wire, now: float) -> None:
        """Keep the connection for the next request, unless it is closed."""
        if wire.closed:
            return
        if self._idle_count >= self._most:
            wire.close()
            return
        wire.idle_since = now
        self._idle.setdefault(key, deque()).append(wire)
        self._idle_count += 1
        if self._reaper is None:
            self._reaper = asyncio.get_running_loop().call_later(self._keepalive_s, self._reap)

    def _reap(self) -> None:
        """Close connections that were idle for longer than `keepalive_s`."""
        loop = asyncio.get_running_loop()
        self._reaper = None
        oldest_kept = loop.time() - self._keepalive_s
        for key in list(self._idle):
            idle = self._idle[key]
            while idle and (idle[0].closed or idle[0].idle_since < oldest_kept):
                idle.popleft().close()
                self._idle_count -= 1
            if not idle:
                del self._idle[key]
        if self._idle:
            self._reaper = loop.call_later(self._keepalive_s, self._reap)

    def close(self) -> None:
        if self._reaper is not None:
            self._reaper.cancel()
            self._reaper = None
        for idle in self._idle.values():
            for wire in idle:
                wire.close()
        self._idle.clear()
        self._idle_count = 0
