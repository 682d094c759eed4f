"""One HTTP/1.1 connection and the pool of them: just what sending a request and reading a bounded answer takes.

Written for fan-out, where a general client costs more than everything else together. It unpacks nothing, follows nothing,
keeps no cookies and never sends a request twice.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Any, cast

import httptools

MAX_HEAD_BYTES = 16 << 10
MAX_HEADERS = 64

Key = tuple[str, str, int]
"""Scheme, host and port: connections to the same are alike."""


class Broken(Exception):
    """The connection ended, or spoke something else, before there was an answer."""


@dataclass(slots=True)
class Answer:
    """An answer as far as it has come. `status` is 0 until its head is complete."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: bytearray = field(default_factory=bytearray)
    truncated: bool = False


class Wire(asyncio.Protocol):
    """One connection: at most one request at a time."""

    __slots__ = ("_answer", "_done", "_head_bytes", "_limit", "_parser", "_transport", "closed", "deadline", "idle_since")

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parser: Any = None
        self._answer = Answer()
        self._done: asyncio.Future[Answer] | None = None
        self._limit = 0
        self._head_bytes = 0
        self.closed = False
        self.idle_since = 0.0
        self.deadline = 0.0

    # -- what the transport calls ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._parser = httptools.HttpResponseParser(self)

    def data_received(self, data: bytes) -> None:
        if self._done is None:
            self.close()  # nobody asked for anything
            return
        if not self._answer.status:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._finish(truncated=True)
        except httptools.HttpParserError as error:
            self._break(error)
        else:
            if not self._answer.status and self._head_bytes > MAX_HEAD_BYTES:
                self._break(Broken("the head of the answer is too long"))

    def eof_received(self) -> None:
        if self._done is not None:
            self._end_of_data(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        if self._done is not None:
            self._end_of_data(exc)

    # -- what the parser calls ---------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._done is None:
            self.close()  # a second answer to one request: it must not be taken for that to the next

    def on_header(self, name: bytes, value: bytes) -> None:
        headers = self._answer.headers
        lower = name.decode("latin-1").lower()
        text = value.decode("latin-1")
        known = headers.get(lower)
        headers[lower] = text if known is None else f"{known}, {text}"
        if len(headers) > MAX_HEADERS or len(name) + len(value) > MAX_HEAD_BYTES:
            raise Broken("the head of the answer is too long")

    def on_headers_complete(self) -> None:
        self._answer.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        if self._done is None:
            return
        read = self._answer.body
        read += body
        if len(read) > self._limit:
            del read[self._limit :]
            self._finish(truncated=True)

    def on_message_complete(self) -> None:
        if self._done is None:
            return
        if 100 <= self._answer.status < 200 and self._answer.status != 101:
            self._answer = Answer()  # a word in between; the answer follows
            self._head_bytes = 0
            return
        if not self._parser.should_keep_alive():
            self._finish()
            self.close()
        else:
            self._finish()

    # -- what the client calls ---------------------------------------------------------------------------------------

    def send(self, request: bytes, *, limit: int) -> asyncio.Future[Answer]:
        """Send a request; the future has its answer, or raises Broken."""
        assert self._transport is not None
        self._answer = Answer()
        self._head_bytes = 0
        self._limit = limit
        self._done = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._done

    def expire(self) -> None:
        """The time is over: an answer whose status is known ends here, without one there is none."""
        if self._done is not None and not self._done.done():
            if self._answer.status:
                self._finish(truncated=True)
            else:
                done, self._done = self._done, None
                done.set_exception(TimeoutError())
                self.close()

    def close(self) -> None:
        self.closed = True
        self._done = None
        if self._transport is not None:
            self._transport.abort()

    def _finish(self, *, truncated: bool = False) -> None:
        done, self._done = self._done, None
        if done is None:
            return  # it was cut short, and the parser is still going through what had arrived
        self._answer.truncated = truncated
        if not done.done():
            done.set_result(self._answer)
        if truncated:
            self.close()  # what is left unread must not be the start of somebody else's answer

    def _end_of_data(self, error: Exception | None) -> None:
        """The other side has ended the connection: that ends a body without a length, and breaks any other."""
        answer = self._answer
        if answer.status:
            sized = "content-length" in answer.headers or "transfer-encoding" in answer.headers
            self._finish(truncated=sized)
            self.close()
        else:
            self._break(error or Broken("the connection was closed"))

    def _break(self, error: Exception) -> None:
        done, self._done = self._done, None
        if done is not None and not done.done():
            if self._answer.status:
                self._answer.truncated = True
                done.set_result(self._answer)
            else:
                done.set_exception(Broken(type(error).__name__))
        self.close()


class Deadlines:
    """One timer for all requests under way, set for the first that may run out of time.

    Most are answered long before, so a timer each would be made and cancelled for nothing.
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
        """What is under way keeps its deadline."""
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
        # The loop's clock may be a little behind the timer's; what is due within a moment is due.
        now = max(asyncio.get_running_loop().time(), self._at)
        for wire in [each for each in self._wires if each.deadline <= now]:
            self._wires.discard(wire)
            wire.expire()
        if self._wires:
            self._set(min(wire.deadline for wire in self._wires))


class Pool:
    """Open connections by host. Bounded in total and per host; beyond that callers wait their turn."""

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
        """Wait for a place; `leave` gives it back."""
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
        """An idle connection, the one used last; None: open one."""
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
        """Keep it for the next request, unless it has ended."""
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
        """Close what nobody has used for a while."""
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
