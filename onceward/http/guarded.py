"""The client for every URL that comes from data: a customer's endpoint, a browser's push address.

The client resolves the host name, checks each address and connects to exactly the address that it checked. A later
change of the DNS entry therefore cannot redirect the request. An IP address in the URL is checked in the same way.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from ipaddress import ip_address
from ssl import SSLContext
from typing import Self

from onceward.outside import leave

from .addresses import IPNetwork, is_loopback, vet
from .errors import AddressRefused, Ambiguous, HostUnreachable
from .exchange import Response
from .pool import ConnectionPool, Deadlines, Key
from .resolver import Resolver, ThreadResolver
from .spans import is_tracing, traced
from .urls import CheckedUrl, check_url, parse_url
from .wire import Broken, Wire

NAMES_KEPT_S = 10.0
MOST_NAMES_KEPT = 10_000
METHODS = frozenset({"DELETE", "GET", "PATCH", "POST", "PUT"})


@dataclass(frozen=True, slots=True, eq=False)
class ClientIdentity:
    """A client certificate. Connections with it are not used for requests without it."""

    name: str
    context: SSLContext


@dataclass(frozen=True, slots=True, eq=False)
class _Prepared:
    """A checked URL with the parts that every request to it needs."""

    key: Key
    where: str
    path: str
    host: str
    context: SSLContext | None = None


class GuardedClient:
    """Calls untrusted URLs: public addresses and https only, with limits on bytes and time.

    It follows no redirects, keeps no cookies, decompresses nothing and ignores proxy settings of the environment.
    `allow_loopback_http` is for development: it allows loopback addresses, and plain http to them. `per_host=0` means
    no limit on the connections to one host.
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
            raise ValueError(f"max_response_bytes must be at least 0, not {max_response_bytes}")
        self._allow_loopback_http = allow_loopback_http
        self._allow_networks = tuple(allow_networks)
        self._timeout_s = timeout_s
        self._max_response_bytes = max_response_bytes
        self._pool = ConnectionPool(most=concurrency, per_host=per_host, keepalive_s=keepalive_s)
        self._deadlines = Deadlines()
        self._defaults = {"User-Agent": user_agent, "Accept": "*/*", "Accept-Encoding": "identity"}
        self._resolver = resolver or ThreadResolver()
        self._names: dict[Key, tuple[float, list[str]]] = {}
        self._ssl_context = ssl_context
        self._closed = False
        # Cached: checking a URL takes as long as sending to it, and the same few URLs are used again and again.
        self._prepared = lru_cache(maxsize=4096)(self._prepare)
        self._cached_head_start = lru_cache(maxsize=4096)(self._head_start)

    def allow_loopback(self) -> None:
        """Allow loopback addresses from now on, over plain http too: a demo has simulated receivers there."""
        self._allow_loopback_http = True

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout_s: float | None = None,
        identity: ClientIdentity | None = None,
    ) -> Response:
        """Send the request once, without retries. Raise UrlRefused, AddressRefused, HostUnreachable or Ambiguous."""
        if self._closed:
            raise RuntimeError("the client is closed")
        leave(method, url, headers)
        to = self._prepared(url)
        if identity is not None:
            to = replace(to, key=(*to.key[:3], identity.name), context=identity.context)
        timeout = self._timeout_s if timeout_s is None else timeout_s
        if not is_tracing():
            return await self._request(method, to, headers or {}, body, timeout)
        _, host, port, _ = to.key
        return await traced(
            lambda given: self._request(method, to, given, body, timeout), method, host, port, headers or {}
        )

    async def _request(
        self, method: str, to: _Prepared, headers: Mapping[str, str], body: bytes | None, timeout: float
    ) -> Response:
        request = self._head(method, to, headers, body) + (body or b"")
        loop = asyncio.get_running_loop()
        started = loop.time()
        deadline = started + timeout
        await (self._pool.enter(to.key) if self._pool.has_room(to.key) else self._enter(to, timeout, deadline))
        try:
            wire = self._pool.take(to.key, started)
            if wire is None:
                wire = await self._connect(to, timeout, deadline)
            self._deadlines.add(wire, deadline)
            try:
                answer = await wire.send(request, limit=self._max_response_bytes)
            except TimeoutError:
                raise Ambiguous(f"{to.where}: no answer within {timeout:g} s") from None
            except Broken as error:
                raise Ambiguous(f"{to.where}: the connection broke before an answer ({error})") from None
            except asyncio.CancelledError:
                wire.close()
                raise
            finally:
                self._deadlines.remove(wire)
            ended = loop.time()
            self._pool.give_back(to.key, wire, ended)
        finally:
            self._pool.leave(to.key)
        return Response(
            status=answer.status,
            headers=answer.headers,
            body=bytes(answer.body),
            elapsed_ms=round((ended - started) * 1000),
            truncated=answer.truncated,
        )

    async def check_url(self, url: str, *, timeout_s: float = 5.0) -> CheckedUrl:
        """Check a URL at registration by the same rules that apply when this client calls it."""
        return await check_url(
            url,
            allow_loopback_http=self._allow_loopback_http,
            allow_networks=self._allow_networks,
            resolver=self._resolver,
            timeout_s=timeout_s,
        )

    async def aclose(self) -> None:
        self._closed = True
        self._pool.close()
        self._deadlines.close()
        self._resolver.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    # -- the request ---------------------------------------------------------------------------------------------------

    def _prepare(self, url: str) -> _Prepared:
        checked = parse_url(url, allow_loopback_http=self._allow_loopback_http)
        host = checked.host if ":" not in checked.host else f"[{checked.host}]"
        explicit = "" if checked.url.is_default_port() else f":{checked.port}"
        return _Prepared(
            key=(checked.url.scheme, checked.host, checked.port, ""),
            where=f"{checked.host}:{checked.port}",
            path=checked.url.raw_path_qs or "/",
            host=host + explicit,
        )

    def _head(self, method: str, to: _Prepared, headers: Mapping[str, str], body: bytes | None) -> bytes:
        lines = [self._cached_head_start(method, to, tuple(headers))]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body is not None or method != "GET":
            lines.append(f"Content-Length: {len(body or b'')}")
        head = "\r\n".join(lines) + "\r\n\r\n"
        breaks = lines[0].count("\n") + len(lines) + 1
        if head.count("\n") != breaks or head.count("\r") != breaks or "\0" in head:
            raise ValueError("a header contains a line break or NUL")
        return head.encode("latin-1")

    def _head_start(self, method: str, to: _Prepared, names: tuple[str, ...]) -> str:
        """Return the lines before the caller's headers; raise ValueError for headers that only the client may set."""
        if method not in METHODS:
            raise ValueError(f"method {method!r} is not allowed; use one of {', '.join(sorted(METHODS))}")
        lower_names = {name.lower() for name in names}
        if lower_names & {"host", "content-length", "transfer-encoding", "connection"}:
            raise ValueError(
                "remove Host, Content-Length, Transfer-Encoding and Connection: the client sets these headers"
            )
        lines = [f"{method} {to.path} HTTP/1.1", f"Host: {to.host}"]
        lines += [f"{name}: {value}" for name, value in self._defaults.items() if name.lower() not in lower_names]
        return "\r\n".join(lines)

    # -- connections ---------------------------------------------------------------------------------------------------

    async def _enter(self, to: _Prepared, timeout: float, deadline: float) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                await self._pool.enter(to.key)
        except TimeoutError:
            raise HostUnreachable(f"{to.where}: no connection within {timeout:g} s") from None

    async def _connect(self, to: _Prepared, timeout: float, deadline: float) -> Wire:
        """Connect to one of the host's allowed addresses, trying them in order."""
        try:
            async with asyncio.timeout_at(deadline):
                addresses = await self._addresses(to)
                allowed, refused = self._vetted(to, addresses)
                if not allowed:
                    raise AddressRefused(f"{to.key[1]}: {refused}")
                return await self._dial(to, allowed, deadline)
        except TimeoutError:
            raise HostUnreachable(f"{to.where}: no connection within {timeout:g} s") from None

    async def _addresses(self, to: _Prepared) -> list[str]:
        _, host, port, _ = to.key
        try:
            return [str(ip_address(host))]
        except ValueError:
            pass
        now = asyncio.get_running_loop().time()
        cached = self._names.get(to.key)
        if cached is not None and cached[0] > now:
            return cached[1]
        try:
            addresses = await self._resolver.addresses(host, port)
        except (OSError, UnicodeError):
            addresses = []
        if not addresses:
            raise HostUnreachable(f"{to.where}: the host name does not resolve")
        if len(self._names) >= MOST_NAMES_KEPT:
            self._names.clear()
        self._names[to.key] = (now + NAMES_KEPT_S, addresses)
        return addresses

    def _vetted(self, to: _Prepared, addresses: Sequence[str]) -> tuple[list[str], str]:
        """Return the allowed addresses in canonical form, and the reason why the last refused one is not allowed."""
        allowed: list[str] = []
        refused = ""
        for address in addresses:
            try:
                ip = vet(address, allow_loopback=self._allow_loopback_http, allow_networks=self._allow_networks)
                if to.key[0] == "http" and not is_loopback(ip):
                    raise AddressRefused(f"address {ip}: plain http is for loopback only; use https")
            except AddressRefused as error:
                refused = error.reason
            else:
                allowed.append(str(ip))
        return allowed, refused

    async def _dial(self, to: _Prepared, allowed: Sequence[str], deadline: float) -> Wire:
        loop = asyncio.get_running_loop()
        secure = to.key[0] == "https"
        reason = ""
        for number, address in enumerate(allowed):
            # An address that never answers must not use up the time for the others.
            share = (deadline - loop.time()) / (len(allowed) - number)
            try:
                async with asyncio.timeout(share):
                    _, wire = await loop.create_connection(
                        Wire,
                        address,
                        to.key[2],
                        ssl=(to.context or self._tls()) if secure else None,
                        server_hostname=to.key[1] if secure else None,
                    )
                return wire
            except TimeoutError:
                if number == len(allowed) - 1:
                    raise
                reason = "no connection in time"
            except (OSError, RuntimeError) as error:
                reason = _cause(error)  # uvloop raises RuntimeError for some failed connections
        raise HostUnreachable(f"{to.where}: {reason}") from None

    def _tls(self) -> SSLContext:
        if self._ssl_context is None:
            self._ssl_context = ssl.create_default_context()
        return self._ssl_context


def _cause(error: Exception) -> str:
    match error:
        case ssl.CertificateError():
            return "the certificate is not valid for this host"
        case ssl.SSLError():
            return "the TLS handshake failed"
        case OSError(errno=int(number)):
            return os.strerror(number)
        case _:
            return error.__class__.__name__
