"""One HTTP/1.1 connection: just what sending a request and reading a bounded answer takes.

Written for fan-out, where a general client costs more than everything else together. It unpacks nothing, follows nothing,
keeps no cookies and never sends a request twice.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

import httptools

MAX_HEAD_BYTES = 16 << 10
MAX_HEADERS = 64


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

    __slots__ = (
        "_answer",
        "_done",
        "_head_bytes",
        "_limit",
        "_parser",
        "_transport",
        "closed",
        "deadline",
        "idle_since",
    )

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
            self._answer = Answer()  # a second answer to one request changes nothing about the first,
            self.close()  # and must not be taken for that to the next

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
