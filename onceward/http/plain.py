"""The client for hosts that the operator configures: the APIs of the services that we use.

It raises the same errors as the guarded client, but allows all addresses.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from ssl import SSLContext
from typing import TYPE_CHECKING, Self

from onceward.lazy import lazy_module
from onceward.outside import leave

from .errors import Ambiguous, UrlRefused
from .exchange import Response, exchange, open_session
from .resolver import ThreadResolver
from .spans import is_tracing, traced
from .streaming import StreamedResponse, open_stream

if TYPE_CHECKING:
    import aiohttp
    import yarl
else:
    aiohttp = lazy_module("aiohttp")
    yarl = lazy_module("yarl")


class ServiceClient:
    """Calls trusted hosts and needs the whole answer: a truncated one raises Ambiguous.

    `keepalive_s` is shorter than the idle timeout of most services (5 s is common): a request on a connection that
    the service is closing raises Ambiguous, and the caller then has to look up the outcome.
    """

    def __init__(
        self,
        *,
        timeout_s: float = 30.0,
        max_response_bytes: int = 4 * 1024 * 1024,
        concurrency: int = 128,
        keepalive_s: float = 4.0,
        user_agent: str = "Onceward",
        ssl_context: SSLContext | None = None,
    ) -> None:
        if timeout_s <= 0:
            raise ValueError(f"timeout_s must be above 0, not {timeout_s}")
        self._timeout_s = timeout_s
        self._max_response_bytes = max_response_bytes
        self._concurrency = concurrency
        self._keepalive_s = keepalive_s
        self._user_agent = user_agent
        self._ssl_context = ssl_context
        self._resolver = ThreadResolver()
        self._session: aiohttp.ClientSession | None = None

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout_s: float | None = None,
    ) -> Response:
        """Send the request once, without retries. Raise UrlRefused, HostUnreachable or Ambiguous."""
        leave(method, url, headers)
        parsed = _parsed(url)

        async def send(given: Mapping[str, str]) -> Response:
            return await exchange(
                self._opened(),
                method,
                parsed,
                headers=given,
                body=body,
                timeout_s=self._timeout_s if timeout_s is None else timeout_s,
                max_response_bytes=self._max_response_bytes,
            )

        if is_tracing():
            response = await traced(send, method, parsed.raw_host, parsed.port, headers or {})
        else:
            response = await send(headers or {})
        if response.truncated:
            raise Ambiguous(f"{parsed.raw_host}: the answer was truncated", status=response.status)
        return response

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout_s: float | None = None,
        idle_timeout_s: float = 30.0,
    ) -> AsyncGenerator[StreamedResponse]:
        """Send the request once and read the answer while it arrives. Leaving the block closes the connection."""
        leave(method, url, headers)
        parsed = _parsed(url)
        async with AsyncExitStack() as stack:

            async def send(given: Mapping[str, str]) -> StreamedResponse:
                stream = open_stream(
                    self._opened(),
                    method,
                    parsed,
                    headers=given,
                    body=body,
                    timeout_s=self._timeout_s if timeout_s is None else timeout_s,
                    idle_timeout_s=idle_timeout_s,
                )
                return await stack.enter_async_context(stream)

            if is_tracing():  # the span ends with the head of the answer
                yield await traced(send, method, parsed.raw_host, parsed.port, headers or {})
            else:
                yield await send(headers or {})

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
        self._resolver.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            from .connector import ConnectorResolver

            connector = aiohttp.TCPConnector(
                limit=self._concurrency,
                keepalive_timeout=self._keepalive_s,
                resolver=ConnectorResolver(self._resolver),
                ssl=self._ssl_context or True,
            )
            self._session = open_session(connector, user_agent=self._user_agent)
        return self._session


def _parsed(url: str) -> yarl.URL:
    try:
        parsed = yarl.URL(url)
    except ValueError:
        raise UrlRefused("the service's base URL is not valid; write it as https://host") from None
    if parsed.scheme not in ("https", "http") or not parsed.raw_host:
        raise UrlRefused("the service's base URL must start with https:// or http:// and contain a host")
    return parsed
