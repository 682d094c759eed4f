"""The one client for every URL that came from data: a customer's endpoint, a browser's push address.

Addresses are vetted where the socket is made, the last moment before dialling. A check at any earlier point
can be undone by a name server that gives a second answer, and an IP literal is never looked up at all.
"""

import socket
from collections.abc import Mapping, Sequence
from ssl import SSLContext
from typing import Any, Self

import aiohttp

from .addresses import IPNetwork, is_loopback, vet
from .errors import AddressRefused
from .exchange import Response, current_attempt, exchange, open_session
from .resolving import ConnectorResolver, Resolver, ThreadResolver
from .urls import CheckedUrl, check_url, parse_url


class _NotDialled(OSError):
    """Makes the connector try the name's next address; the reason is kept in the attempt."""


class GuardedClient:
    """Calls URLs nobody vouches for: public addresses only, https only, bounded in bytes and time.

    Follows no redirects, keeps no cookies, unpacks nothing and ignores proxy settings of the environment.
    `allow_loopback_http` is for development: it opens loopback addresses, and plain http to them.
    """

    def __init__(
        self,
        *,
        allow_loopback_http: bool = False,
        allow_networks: Sequence[IPNetwork] = (),
        timeout_s: float = 10.0,
        max_response_bytes: int = 1024,
        concurrency: int = 256,
        per_host: int = 32,
        keepalive_s: float = 15.0,
        user_agent: str = "Onceward",
        resolver: Resolver | None = None,
        ssl_context: SSLContext | None = None,
    ) -> None:
        if timeout_s <= 0:
            raise ValueError(f"timeout_s must be above 0, not {timeout_s}")
        if max_response_bytes < 0:
            raise ValueError(f"max_response_bytes must not be negative, not {max_response_bytes}")
        self._allow_loopback_http = allow_loopback_http
        self._allow_networks = tuple(allow_networks)
        self._timeout_s = timeout_s
        self._max_response_bytes = max_response_bytes
        self._concurrency = concurrency
        self._per_host = per_host
        self._keepalive_s = keepalive_s
        self._user_agent = user_agent
        self._resolver = resolver or ThreadResolver()
        self._ssl_context = ssl_context
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
        """Send once, never twice. Raises UrlRefused, AddressRefused, Unreachable or Ambiguous."""
        checked = parse_url(url, allow_loopback_http=self._allow_loopback_http)
        return await exchange(
            self._opened(),
            method,
            checked.url,
            headers=headers or {},
            body=body,
            timeout_s=self._timeout_s if timeout_s is None else timeout_s,
            max_response_bytes=self._max_response_bytes,
            only_loopback=checked.url.scheme == "http",
        )

    async def check_url(self, url: str, *, timeout_s: float = 5.0) -> CheckedUrl:
        """Check a URL for registration by the rules this client will call it under."""
        return await check_url(
            url,
            allow_loopback_http=self._allow_loopback_http,
            allow_networks=self._allow_networks,
            resolver=self._resolver,
            timeout_s=timeout_s,
        )

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
            connector = aiohttp.TCPConnector(
                limit=self._concurrency,
                limit_per_host=self._per_host,
                keepalive_timeout=self._keepalive_s,
                resolver=ConnectorResolver(self._resolver),
                socket_factory=self._socket_for,
                ssl=self._ssl_context or True,
            )
            self._session = open_session(connector, user_agent=self._user_agent)
        return self._session

    def _socket_for(self, address_info: tuple[Any, ...]) -> socket.socket:
        """Make the socket for one address of the name, or refuse it."""
        family, kind, protocol, _, socket_address = address_info
        attempt = current_attempt.get()
        if attempt is None:
            raise _NotDialled("a connection that belongs to no request is not dialled")
        try:
            ip = vet(
                str(socket_address[0]),
                allow_loopback=self._allow_loopback_http,
                allow_networks=self._allow_networks,
            )
            if attempt.only_loopback and not is_loopback(ip):
                raise AddressRefused(f"address {ip} is not called over plain http: it is not loopback")
        except AddressRefused as error:
            attempt.refused = error
            raise _NotDialled(error.reason) from None
        attempt.dialled = True
        return socket.socket(family=family, type=kind, proto=protocol)
