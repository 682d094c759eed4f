"""Send one request over an aiohttp session and convert every failure to one of our error classes.

A failure before the request got a connection is HostUnreachable, because nothing can have been sent. After that it is
Ambiguous, because the request may have been sent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from onceward.lazy import lazy_module

from .errors import Ambiguous, HostUnreachable, UrlRefused

if TYPE_CHECKING:
    import aiohttp
    import yarl
else:
    aiohttp = lazy_module("aiohttp")
    yarl = lazy_module("yarl")

MAX_HEADER_BYTES = 8190
MAX_HEADERS = 64
_BODY_LOG_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Response:
    """An answer. `headers` have lower-case names; `body` is never decompressed and may be truncated."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    elapsed_ms: int
    truncated: bool = False

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def body_first_kb(self) -> bytes:
        return self.body[:_BODY_LOG_BYTES]


@dataclass(slots=True)
class RequestAttempt:
    """The progress of one request. The session's hooks find it in `current_attempt`."""

    connected: bool = False


current_attempt: ContextVar[RequestAttempt | None] = ContextVar("onceward_http_attempt", default=None)


async def _mark_connected(_session: aiohttp.ClientSession, _context: SimpleNamespace, _params: Any) -> None:
    attempt = current_attempt.get()
    if attempt is not None:
        attempt.connected = True


def tracing() -> aiohttp.TraceConfig:
    """Return hooks that record when the request gets a connection, from when on it may have been sent."""
    trace = aiohttp.TraceConfig()
    trace.on_connection_create_end.append(_mark_connected)
    trace.on_connection_reuseconn.append(_mark_connected)
    return trace


def open_session(connector: aiohttp.TCPConnector, *, user_agent: str) -> aiohttp.ClientSession:
    """Open a session without cookies, decompression and proxy settings of the environment."""
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        auto_decompress=False,
        # `exchange` enforces the timeout: aiohttp would round long timeouts up to whole seconds.
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
        headers={"User-Agent": user_agent, "Accept-Encoding": "identity"},
        max_line_size=MAX_HEADER_BYTES,
        max_field_size=MAX_HEADER_BYTES,
        max_headers=MAX_HEADERS,
        trace_configs=[tracing()],
    )


async def exchange(
    session: aiohttp.ClientSession,
    method: str,
    url: yarl.URL,
    *,
    headers: Mapping[str, str],
    body: bytes | None,
    timeout_s: float,
    max_response_bytes: int,
) -> Response:
    """Send one request and read at most `max_response_bytes` of the answer within `timeout_s`.

    Once the status has arrived, the call succeeds: if the body is too long, too slow or interrupted, the part that
    arrived is returned with `truncated` set.
    """
    started = time.monotonic()
    with attempting(session, url, timeout_s):
        return await _exchange(session, method, url, headers, body, started, timeout_s, max_response_bytes)


@contextmanager
def attempting(session: aiohttp.ClientSession, url: yarl.URL, timeout_s: float) -> Generator[None]:
    """Watch one request, and raise its failures as errors that say whether the request may have been carried out."""
    attempt = RequestAttempt()
    token = current_attempt.set(attempt)
    try:
        yield
    except TimeoutError:
        raise timed_out(attempt, url, timeout_s) from None
    except aiohttp.InvalidURL:
        raise UrlRefused("the URL is not valid; write it as https://host/path") from None
    except (aiohttp.ClientError, OSError) as error:
        raise failed(attempt, url, error) from None
    except RuntimeError as error:
        # uvloop raises RuntimeError for some failed connections; a closed session is an error of the caller.
        if session.closed or attempt.connected:
            raise
        raise failed(attempt, url, error) from None
    finally:
        current_attempt.reset(token)


async def _exchange(
    session: aiohttp.ClientSession,
    method: str,
    url: yarl.URL,
    headers: Mapping[str, str],
    body: bytes | None,
    started: float,
    timeout_s: float,
    max_response_bytes: int,
) -> Response:
    deadline = asyncio.get_running_loop().time() + timeout_s
    async with asyncio.timeout_at(deadline):
        answer = await session.request(method, url, headers=headers, data=body, allow_redirects=False)
    read = bytearray()
    truncated = False
    try:
        async with asyncio.timeout_at(deadline):
            while chunk := await answer.content.read(max_response_bytes + 1 - len(read)):
                read += chunk
                if len(read) > max_response_bytes:
                    truncated = True
                    break
    except (TimeoutError, aiohttp.ClientError, OSError):
        truncated = True
    finally:
        if answer.content.at_eof() and not truncated:
            answer.release()
        else:
            # Otherwise the next request would read the rest of this answer.
            answer.close()
    return Response(
        status=answer.status,
        headers=joined_headers(answer),
        body=bytes(read[:max_response_bytes]),
        elapsed_ms=round((time.monotonic() - started) * 1000),
        truncated=truncated,
    )


def joined_headers(answer: aiohttp.ClientResponse) -> dict[str, str]:
    joined: dict[str, str] = {}
    for name, value in answer.headers.items():
        earlier = joined.get(name.lower())
        joined[name.lower()] = value if earlier is None else f"{earlier}, {value}"
    return joined


def timed_out(attempt: RequestAttempt, url: yarl.URL, timeout_s: float) -> HostUnreachable | Ambiguous:
    where = f"{url.raw_host}:{url.port}"
    if attempt.connected:
        return Ambiguous(f"{where}: no answer within {timeout_s:g} s")
    return HostUnreachable(f"{where}: no connection within {timeout_s:g} s")


def failed(attempt: RequestAttempt, url: yarl.URL, error: Exception) -> HostUnreachable | Ambiguous:
    where = f"{url.raw_host}:{url.port}"
    if attempt.connected:
        # Includes answers with a line or header over our limits: the server answered, but the outcome is unknown.
        return Ambiguous(f"{where}: the connection broke before an answer ({error.__class__.__name__})")
    return HostUnreachable(f"{where}: {_cause(error)}")


def _cause(error: Exception) -> str:
    match error:
        case aiohttp.ClientConnectorDNSError():
            return "the host name does not resolve"
        case aiohttp.ClientConnectorCertificateError():
            return "the certificate is not valid for this host"
        case aiohttp.ClientConnectorSSLError():
            return "the TLS handshake failed"
        case OSError(strerror=str(text)) if text:
            return text
        case _:
            return error.__class__.__name__
