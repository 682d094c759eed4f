"""One HTTP/1.1 connection that sends a request and reads an answer of limited size.

It is written for fan-out, where a general HTTP client costs more than all other steps together. It decompresses
nothing, follows no redirects, keeps no cookies and never sends a request twice.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

import httptools

from onceward.errors import OncewardError

MAX_HEAD_BYTES = 16 << 10
MAX_HEADERS = 64


class Broken(OncewardError):
    """The connection ended or sent something other than HTTP before an answer."""


@dataclass(slots=True)
class WireAnswer:
    """The part of an answer that has arrived. `status` is 0 until the head is complete."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: bytearray = field(default_factory=bytearray)
    truncated: bool = False


class Wire(asyncio.Protocol):
    """One connection with at most one request at a time."""

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
        self._answer = WireAnswer()
        self._done: asyncio.Future[WireAnswer] | None = None
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
            self.close()  # data without a request
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
            # A second answer to one request must neither change the first nor count as that to the next request.
            self._answer = WireAnswer()
            self.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        headers = self._answer.headers
        lower = name.decode("latin-1").lower()
        text = value.decode("latin-1")
        earlier = headers.get(lower)
        headers[lower] = text if earlier is None else f"{earlier}, {text}"
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
            self._answer = WireAnswer()  # an interim response; the answer follows
            self._head_bytes = 0
            return
        if not self._parser.should_keep_alive():
            self._finish()
            self.close()
        else:
            self._finish()

    # -- what the client calls ---------------------------------------------------------------------------------------

    def send(self, request: bytes, *, limit: int) -> asyncio.Future[WireAnswer]:
        """Send a request. The future returns its answer, or raises Broken or TimeoutError."""
        assert self._transport is not None
        self._answer = WireAnswer()
        self._head_bytes = 0
        self._limit = limit
        self._done = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._done

    def expire(self) -> None:
        """End the request at its deadline: truncate an answer whose status is known, otherwise raise TimeoutError."""
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
            return  # the answer was truncated, and the parser still reads data that had arrived
        self._answer.truncated = truncated
        if not done.done():
            done.set_result(self._answer)
        if truncated:
            self.close()  # otherwise the next request would read the rest of this answer

    def _end_of_data(self, error: Exception | None) -> None:
        """Handle a connection closed by the server: it completes a body without a length and truncates any other."""
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
