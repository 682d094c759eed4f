"""uvicorn's HTTP/1.1 with limits, and with protection against request smuggling.

Differences from uvicorn's protocol:

- The size of the request head, the number of headers and the length of the URL are limited; see `edge.py` for these and
  the time limits.
- An `Upgrade` that does not open a WebSocket is ignored, as RFC 9110 allows. Otherwise the parser would drop the body
  and read later bytes as a new request.
- After the first invalid byte the server reads nothing more. Complete requests before it get their responses.
- A client that closes its sending side after its request still gets its response.
- Trailers are dropped, because the checks of headers have not seen them.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from onceward.errors import OncewardError
from onceward.web.edge import Address, Edge

BETWEEN, HEAD, BODY = 0, 1, 2
"""The part of a request that the parser is reading."""
LINGER_S = 2.0
"""Seconds for which the server reads on after an error response, so that a reset does not lose the response."""
LINGER_BYTES = 1024 * 1024
MOST_PIPELINED = 64
NOTED = frozenset({b"expect", b"host", b"transfer-encoding"})


class RequestRefused(OncewardError):
    """Stops the parser. `GuardedProtocol._refused` has the status and the text."""


class GuardedProtocol(HttpToolsProtocol):
    """One connection."""

    edge: ClassVar[Edge]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._address: Address | None = None
        self._part = BETWEEN
        self._finished_one = False
        """Whether the last piece of data contained the end of a request."""
        self._unfinished_bytes = 0
        """Bytes of an unfinished head, or of chunk sizes and trailers since the last piece of a body."""
        self._got_body = False
        self._is_coded = False
        self._hosts = 0
        self._upgrade: str | None = None
        self._refused: tuple[int, str] | None = None
        self._is_deaf = False
        """Whether all further data is discarded."""
        self._got_eof = False
        self._ends_with_answer = False
        """Whether the connection ends after the outstanding responses."""
        self._since = self.edge.now
        self._ending_since: float | None = None
        self._stalled_since: float | None = None

    # -- the connection ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        edge = self.edge
        self._address = edge.address_of(self.client[0] if self.client else None)
        refusal = edge.objection(self._address, transport.get_extra_info("socket").fileno())
        if refusal is None:
            edge.enter(self, self._address)
            return
        edge.refuse(refusal.reason)
        self._is_deaf = True
        transport.write(self._error(refusal.status, refusal.text, b"retry-after: 5\r\n"))
        transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.edge.leave(self, self._address)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        room = self.edge.limits.head_bytes - self._unfinished_bytes
        if len(data) <= room or self._is_deaf:
            self._feed(data)
            return
        # Feed at most the remaining size of a head, so that a head that is too large is not read to its end.
        while data and not self._is_deaf:
            self._feed(data[:room])
            data = data[room:]
            room = self.edge.limits.head_bytes - self._unfinished_bytes
        if data:
            self._feed(data)

    def eof_received(self) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return whether the connection stays open: only while a response is outstanding and has not started."""
        self._got_eof = True
        if self._part != BETWEEN and not self._is_deaf:
            self._refuse(400, "the request is incomplete", "incomplete")
        self._ends_with_answer = True
        # A started stream must end when its client disconnects, which looks the same as closing the sending side.
        return self._owes_answer() and not getattr(self.cycle, "response_started", False)

    def _owes_answer(self) -> bool:
        cycle = cast(Any, self.cycle)
        return cycle is not None and not cycle.response_complete

    # -- reading -------------------------------------------------------------------------------------------------------

    def _feed(self, data: bytes) -> None:
        if self._is_deaf:
            self._discard(data)
            return
        was_in_body = self._part == BODY
        self._finished_one = False
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._change_protocol(data[upgrade.args[0] :])
            return
        except httptools.HttpParserError:
            self._refuse_noted()
            return
        if self._part or not self._finished_one:
            self._note_unfinished(len(data), was_in_body)

    def _note_unfinished(self, size: int, was_in_body: bool) -> None:
        """Count received bytes that complete neither a head nor a request and are not part of a body."""
        if self._finished_one or self._got_body or was_in_body != (self._part == BODY):
            self._unfinished_bytes = 0
            self._got_body = False
            return
        self._unfinished_bytes += size
        if self._unfinished_bytes >= self.edge.limits.head_bytes:
            limit = f"{self.edge.limits.head_bytes} bytes"
            self._refuse(431, f"the request head is larger than {limit}", "limit")

    def _discard(self, data: bytes) -> None:
        self._unfinished_bytes += len(data)
        if self._ending_since is not None and self._unfinished_bytes > LINGER_BYTES:
            self.transport.abort()

    def _refuse_noted(self) -> None:
        if self._refused is None:
            self._refuse(400, "the request is not valid HTTP/1.1", "malformed")
        else:
            self._refuse(*self._refused, "limit")

    def _stop(self, status: int, text: str) -> RequestRefused:
        """Record a refusal and return the exception. Parser callbacks use `raise self._stop(...)`."""
        self._refused = (status, text)
        return RequestRefused(text)

    # -- parser callbacks ----------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._part = HEAD
        self._since = self.edge.now
        self._is_coded = False
        self._hosts = 0
        self._upgrade = None
        # `_begin` creates the scope, if one is needed.
        self.url = b""
        self.expect_100_continue = False
        self.headers = []

    def on_url(self, url: bytes) -> None:
        self.url += url
        if len(self.url) > self.edge.limits.url_bytes:
            raise self._stop(414, f"the URL is longer than {self.edge.limits.url_bytes} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._part != HEAD:
            return  # a trailer
        name = name.lower()
        if name in NOTED:
            self._note_header(name, value)
        self.headers.append((name, value))

    def _note_header(self, name: bytes, value: bytes) -> None:
        if name == b"host":
            self._hosts += 1
            return
        if name == b"expect":
            self.expect_100_continue = value.lower() == b"100-continue"
            return
        if self._is_coded or value.strip().lower() != b"chunked":
            raise self._stop(501, "the only supported transfer coding is chunked")
        self._is_coded = True

    def on_headers_complete(self) -> None:
        self._check_head()
        if self._upgrade is None:
            self._begin()
        self._part = BODY

    def _check_head(self) -> None:
        """Refuse an invalid head, and decide whether an `Upgrade` opens a WebSocket or is ignored."""
        self._unfinished_bytes = 0
        if len(self.headers) > self.edge.limits.headers:
            raise self._stop(431, f"more than {self.edge.limits.headers} headers")
        if self._hosts != 1 and (self._hosts or self.parser.get_http_version() == "1.1"):
            raise self._stop(400, "more than one Host header" if self._hosts else "HTTP/1.1 requires the header Host")
        if self._is_coded and self.parser.get_http_version() != "1.1":
            raise self._stop(400, "a transfer coding requires HTTP/1.1")
        if not self.parser.should_upgrade():
            return
        if self.parser.get_method() == b"CONNECT":
            raise self._stop(501, "this server is not a proxy")
        if not self._opens_websocket():
            self._upgrade = "ignored"
            return
        if self._owes_answer():
            raise self._stop(400, "a WebSocket cannot be opened while the connection waits for a response")
        self._upgrade = "websocket"
        self._begin()

    def _opens_websocket(self) -> bool:
        if self.parser.get_method() != b"GET" or self.parser.get_http_version() != "1.1":
            return False
        if not any(name == b"upgrade" and value.strip().lower() == b"websocket" for name, value in self.headers):
            return False
        if self._is_coded or any(name == b"content-length" and value.strip(b"0 ") for name, value in self.headers):
            raise self._stop(400, "a WebSocket handshake must not have a body")
        return True

    def _begin(self) -> None:
        """Pass the head to uvicorn, which starts the application or queues the request."""
        if len(self.pipeline) >= MOST_PIPELINED:
            raise self._stop(503, f"more than {MOST_PIPELINED} requests wait on this connection")
        if self.parser.get_http_version() not in ("1.1", "1.0"):
            raise self._stop(505, "use HTTP/1.1")
        self._since = self.edge.now
        head = (self.url, self.headers, self.expect_100_continue)
        super().on_message_begin()
        self.url, headers, self.expect_100_continue = head
        self.headers += headers
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._got_body = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._part = BETWEEN
        self._finished_one = True
        if self._upgrade is None:
            super().on_message_complete()
            if not cast(Any, self.cycle).keep_alive:
                self._is_deaf = True  # the client sent `Connection: close`, so later bytes are not a request

    # -- upgrades ------------------------------------------------------------------------------------------------------

    def _should_upgrade(self) -> bool:
        return self._upgrade == "websocket"

    def _change_protocol(self, rest: bytes) -> None:
        if self._upgrade == "websocket":
            self._open_websocket()
            return
        # The parser has skipped the body. A new parser reads the request again, without the header `Upgrade`.
        version = self.parser.get_http_version().encode()
        head = [self.parser.get_method(), b" ", self.url, b" HTTP/", version, b"\r\n"]
        for name, value in self.headers:
            if name != b"upgrade":
                head += [name, b": ", value, b"\r\n"]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._feed(b"".join((*head, b"\r\n", rest)))

    def _open_websocket(self) -> None:
        """Open a WebSocket as uvicorn does, within the limits of the client's address."""
        forwarded = b",".join(value for name, value in self.headers if name == b"x-forwarded-for")
        address = self.edge.address_of(self.client[0] if self.client else None, forwarded.decode("latin-1"))
        if address is not None and (
            address.frames.is_spent(self.edge.now)
            or (address is not self._address and address.connections >= self.edge.limits.connections_per_address)
        ):
            self._refuse(429, "too many connections or frames from this address", "address")
            return
        self.connections.discard(self)
        self.edge.leave(self, self._address)
        head = [b"GET ", self.url, b" HTTP/1.1\r\n"]
        for name, value in self.headers:
            head += [name, b": ", value, b"\r\n"]
        websocket = cast(Any, self.ws_protocol_class)(
            config=self.config, server_state=self.server_state, app_state=self.app_state
        )
        websocket.count_for(address)
        websocket.connection_made(self.transport)
        websocket.data_received(b"".join((*head, b"\r\n")))
        self.transport.set_protocol(websocket)
        self._is_deaf = True  # data that arrived before the end of the handshake is discarded

    # -- the end -------------------------------------------------------------------------------------------------------

    def _refuse(self, status: int, text: str, reason: str) -> None:
        """Stop reading. Complete requests still get their responses; otherwise the client gets this error."""
        self.edge.refuse(reason)
        self._is_deaf = True
        self._unfinished_bytes = 0
        if self._part == BODY:
            if self._drop_unfinished():
                return
        elif self._owes_answer():
            self._ends_with_answer = True
            return
        self.transport.write(self._error(status, text))
        self._end()

    def _drop_unfinished(self) -> bool:
        """Drop the request with an invalid or missing body. Returns True if no error can be sent for it."""
        cycle = cast(Any, self.cycle)
        cycle.disconnected = True
        cycle.message_event.set()
        if self.pipeline:  # the request waits behind earlier ones
            self.pipeline.popleft()
            self._ends_with_answer = True
            return True
        if cycle.response_started:
            self._end()
            return True
        return False

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self._since = self.edge.now
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self._ends_with_answer:
            self._end()

    def _end(self) -> None:
        """Close so that the client can read the response: closing a socket with unread data would reset it."""
        if self._got_eof or not self.transport.can_write_eof():
            self.transport.close()
            return
        self._is_deaf = True
        self._ending_since = self.edge.now
        self.flow.resume_reading()
        self.transport.write_eof()

    def _error(self, status: int, text: str, more: bytes = b"") -> bytes:
        own = b"".join([b"%b: %b\r\n" % pair for pair in self.server_state.default_headers])
        body = text.encode()
        head = b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n" % len(body)
        return b"".join((STATUS_LINE[status], own, head, more, b"\r\n", body))

    # -- time limits ---------------------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        self._stalled_since = self.edge.now
        super().pause_writing()

    def resume_writing(self) -> None:
        self._stalled_since = None
        super().resume_writing()

    def visit(self, now: float) -> None:
        limits = self.edge.limits
        if self.transport.is_closing() or self._ending_since is not None:
            if self._ending_since is None:
                self._ending_since = now
            elif now - self._ending_since >= LINGER_S:
                self._visit_ended(now)
        elif self._stalled_since is not None:
            if now - self._stalled_since >= limits.write_s:
                self.edge.refuse("slow_reader")
                self.transport.abort()
        elif self._part == BODY:
            if self.flow.read_paused:
                self._since = now  # the application is slow, not the client
            elif now - self._since >= limits.body_s:
                self._refuse(408, f"the body did not arrive within {limits.body_s:g} s", "slow_body")
        elif self._owes_answer():
            return
        elif self._part == HEAD or self._unfinished_bytes:
            if now - self._since >= limits.head_s:
                self._refuse(408, f"the request head did not arrive within {limits.head_s:g} s", "slow_head")
        elif cast(Any, self.cycle) is None:
            if now - self._since >= min(limits.head_s, self.edge.idle_s):
                self.edge.refuse("silent")
                self.transport.close()
        elif now - self._since >= self.edge.idle_s:
            self.transport.close()

    def _visit_ended(self, now: float) -> None:
        """Abort the connection once the client has read the response, or when the write limit has passed."""
        if (
            self.transport.get_write_buffer_size() == 0
            or now - cast(float, self._ending_since) >= self.edge.limits.write_s
        ):
            self.transport.abort()

    def _unset_keepalive_if_required(self) -> None:
        """Do nothing: there is no timer to cancel."""
