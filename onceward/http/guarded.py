"""The one client for every URL that came from data: a customer's endpoint, a browser's push address.

Names are resolved here, each address is vetted, and exactly the address that was vetted is dialled. A name server that
gives another answer a moment later changes nothing, and an IP literal is vetted like any other.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address
from ssl import SSLContext
from typing import Self

from .addresses import IPNetwork, is_loopback, vet
from .errors import AddressRefused, Ambiguous, Unreachable
from .exchange import Response
from .pool import Deadlines, Key, Pool
from .resolving import Resolver, ThreadResolver
from .urls import CheckedUrl, check_url, parse_url
from .wire import Broken, Wire

NAMES_KEPT_S = 10.0
MOST_NAMES_KEPT = 10_000
METHODS = frozenset({"DELETE", "GET", "PATCH", "POST", "PUT"})


@dataclass(frozen=True, slots=True, eq=False)
class _Prepared:
    """A URL that has been checked, and what every request to it begins with."""

    key: Key
    where: str
    path: str
    host: str


class GuardedClient:
    """Calls URLs nobody vouches for: public addresses only, https only, bounded in bytes and time.

    Follows no redirects, keeps no cookies, unpacks nothing and ignores proxy settings of the environment.
    `allow_loopback_http` is for development: it opens loopback addresses, and plain http to them. `per_host=0` leaves the
    number of connections to one host unbounded.
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
        self._pool = Pool(most=concurrency, per_host=per_host, keepalive_s=keepalive_s)
        self._deadlines = Deadlines()
        self._defaults = {"User-Agent": user_agent, "Accept": "*/*", "Accept-Encoding": "identity"}
        self._resolver = resolver or ThreadResolver()
        self._names: dict[Key, tuple[float, list[str]]] = {}
        self._ssl_context = ssl_context
        self._closed = False
        # Checking a URL takes as long as sending to it; the same few are sent to again and again.
        self._prepared = lru_cache(maxsize=4096)(self._prepare)
        self._opening = lru_cache(maxsize=4096)(self._open_head)

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
        if self._closed:
            raise RuntimeError("the client has been closed")
        to = self._prepared(url)
        request = self._head(method, to, headers or {}, body) + (body or b"")
        timeout = self._timeout_s if timeout_s is None else timeout_s
        loop = asyncio.get_running_loop()
        began = loop.time()
        deadline = began + timeout
        await (self._pool.enter(to.key) if self._pool.has_room(to.key) else self._enter(to, timeout, deadline))
        try:
            wire = self._pool.take(to.key, began)
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
            elapsed_ms=round((ended - began) * 1000),
            truncated=answer.truncated,
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
            key=(checked.url.scheme, checked.host, checked.port),
            where=f"{checked.host}:{checked.port}",
            path=checked.url.raw_path_qs or "/",
            host=host + explicit,
        )

    def _head(self, method: str, to: _Prepared, headers: Mapping[str, str], body: bytes | None) -> bytes:
        lines = [self._opening(method, to, tuple(headers))]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body is not None or method != "GET":
            lines.append(f"Content-Length: {len(body or b'')}")
        head = "\r\n".join(lines) + "\r\n\r\n"
        breaks = lines[0].count("\n") + len(lines) + 1
        if head.count("\n") != breaks or head.count("\r") != breaks or "\0" in head:
            raise ValueError("a header holds a line break or NUL")
        return head.encode("latin-1")

    def _open_head(self, method: str, to: _Prepared, names: tuple[str, ...]) -> str:
        """The lines before the headers that were given, checked for what is the client's own."""
        if method not in METHODS:
            raise ValueError(f"method {method!r} is not sent; use one of {', '.join(sorted(METHODS))}")
        given = {name.lower() for name in names}
        if given & {"host", "content-length", "transfer-encoding", "connection"}:
            raise ValueError("Host, Content-Length, Transfer-Encoding and Connection are set by the client")
        lines = [f"{method} {to.path} HTTP/1.1", f"Host: {to.host}"]
        lines += [f"{name}: {value}" for name, value in self._defaults.items() if name.lower() not in given]
        return "\r\n".join(lines)

    # -- connections ---------------------------------------------------------------------------------------------------

    async def _enter(self, to: _Prepared, timeout: float, deadline: float) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                await self._pool.enter(to.key)
        except TimeoutError:
            raise Unreachable(f"{to.where}: no connection within {timeout:g} s") from None

    async def _connect(self, to: _Prepared, timeout: float, deadline: float) -> Wire:
        """Dial the addresses of the host in turn, those that may be dialled."""
        try:
            async with asyncio.timeout_at(deadline):
                addresses = await self._addresses(to)
                allowed, refused = self._vetted(to, addresses)
                if not allowed:
                    raise AddressRefused(f"{to.key[1]}: {refused}")
                return await self._dial(to, allowed, deadline)
        except TimeoutError:
            raise Unreachable(f"{to.where}: no connection within {timeout:g} s") from None

    async def _addresses(self, to: _Prepared) -> list[str]:
        _, host, port = to.key
        try:
            return [str(ip_address(host))]
        except ValueError:
            pass
        now = asyncio.get_running_loop().time()
        kept = self._names.get(to.key)
        if kept is not None and kept[0] > now:
            return kept[1]
        try:
            found = await self._resolver.addresses(host, port)
        except (OSError, UnicodeError):
            found = []
        if not found:
            raise Unreachable(f"{to.where}: the name does not resolve")
        if len(self._names) >= MOST_NAMES_KEPT:
            self._names.clear()
        self._names[to.key] = (now + NAMES_KEPT_S, found)
        return found

    def _vetted(self, to: _Prepared, addresses: Sequence[str]) -> tuple[list[str], str]:
        """The addresses that may be dialled, in their canonical form, and why the last of the others may not."""
        allowed: list[str] = []
        refused = ""
        for address in addresses:
            try:
                ip = vet(address, allow_loopback=self._allow_loopback_http, allow_networks=self._allow_networks)
                if to.key[0] == "http" and not is_loopback(ip):
                    raise AddressRefused(f"address {ip} is not called over plain http: it is not loopback")
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
            # An address that swallows packets must not use up the time of the others.
            share = (deadline - loop.time()) / (len(allowed) - number)
            try:
                async with asyncio.timeout(share):
                    _, wire = await loop.create_connection(
                        Wire,
                        address,
                        to.key[2],
                        ssl=self._tls() if secure else None,
                        server_hostname=to.key[1] if secure else None,
                    )
                return wire
            except TimeoutError:
                if number == len(allowed) - 1:
                    raise
                reason = "no connection in time"
            except (OSError, RuntimeError) as error:
                reason = _cause(error)  # uvloop words some failures to connect as RuntimeError
        raise Unreachable(f"{to.where}: {reason}") from None

    def _tls(self) -> SSLContext:
        if self._ssl_context is None:
            self._ssl_context = ssl.create_default_context()
        return self._ssl_context


def _cause(error: Exception) -> str:
    match error:
        case ssl.CertificateError():
            return "its certificate is not valid for this host"
        case ssl.SSLError():
            return "no TLS connection came about"
        case OSError(errno=int(number)):
            return os.strerror(number)
        case _:
            return error.__class__.__name__
