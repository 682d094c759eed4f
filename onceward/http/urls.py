"""The URLs that the guarded client may call. They are checked at registration and again before every call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from onceward.lazy import lazy_module

from .addresses import IPNetwork, is_loopback, vet
from .errors import AddressRefused, UrlRefused
from .resolver import Resolver, ThreadResolver, resolve

if TYPE_CHECKING:
    import yarl
else:
    yarl = lazy_module("yarl")

MAX_URL_LENGTH = 2048

# Below 1024 only the ports of the web are allowed. Above it the ports of well-known services that are not web
# servers are refused, so that nobody can use a URL to reach a database in our network.
_WEB_PORTS = frozenset({80, 443})
_SERVICE_PORTS = frozenset(
    {
        1433,  # SQL Server
        1521,  # Oracle
        2049,  # NFS
        2375,  # Docker
        2376,
        2379,  # etcd
        2380,
        3306,  # MySQL
        3389,  # remote desktop
        4222,  # NATS
        5432,  # PostgreSQL
        5672,  # AMQP
        5900,  # VNC
        5984,  # CouchDB
        6000,  # X11
        6379,  # Redis
        6432,  # PgBouncer
        6443,  # Kubernetes
        6667,  # IRC
        9042,  # Cassandra
        9092,  # Kafka
        9200,  # Elasticsearch
        9300,
        10250,  # kubelet
        11211,  # memcached
        27017,  # MongoDB
    }
)


@dataclass(frozen=True, slots=True)
class CheckedUrl:
    """A URL that may be called, in normalized form."""

    url: yarl.URL
    host: str
    port: int
    addresses: tuple[str, ...] = ()

    def __str__(self) -> str:
        return str(self.url)


def is_private(url: str) -> bool:
    """Return whether nobody on the way can read or change what is sent: over https, or to this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1"))


def parse_url(url: str, *, allow_loopback_http: bool = False) -> CheckedUrl:
    """Check everything about a URL that needs no DNS lookup; raise UrlRefused if it breaks a rule."""
    if len(url) > MAX_URL_LENGTH:
        raise UrlRefused(f"the URL has {len(url)} characters; at most {MAX_URL_LENGTH} are allowed")
    if any(ord(character) <= 0x20 or ord(character) == 0x7F for character in url):
        raise UrlRefused("the URL contains a space or control character; percent-encode it")
    try:
        parsed = yarl.URL(url)
        host, port = parsed.raw_host, parsed.port
    except ValueError:
        raise UrlRefused("the URL is not valid; write it as https://host/path") from None
    allowed = ("https", "http") if allow_loopback_http else ("https",)
    if parsed.scheme not in allowed:
        raise UrlRefused(f"scheme {parsed.scheme!r} is not allowed; use {' or '.join(allowed)}")
    if not host or port is None:
        raise UrlRefused("the URL names no host; write it as https://host/path")
    if parsed.raw_user is not None or parsed.raw_password is not None:
        raise UrlRefused("the URL contains a user name or password; send credentials in a header instead")
    if port not in _WEB_PORTS and (port < 1024 or port in _SERVICE_PORTS):
        raise UrlRefused(f"port {port} is not allowed; use 443 or a port above 1023 that no well-known service uses")
    # A fragment is never sent, so URLs that differ only in it are the same.
    return CheckedUrl(url=parsed.with_fragment(None), host=host, port=port)


async def check_url(
    url: str,
    *,
    allow_loopback_http: bool = False,
    allow_networks: Sequence[IPNetwork] = (),
    resolver: Resolver | None = None,
    timeout_s: float = 5.0,
) -> CheckedUrl:
    """Check a URL at registration: its form, and that every address of its host is allowed.

    The guarded client checks the address again when it connects, because the DNS entry may have changed.
    Raise UrlRefused, AddressRefused, or HostUnreachable if the host name does not resolve.
    """
    checked = parse_url(url, allow_loopback_http=allow_loopback_http)
    used_resolver = resolver or ThreadResolver(threads=1)
    try:
        addresses = await resolve(used_resolver, checked.host, checked.port, timeout_s=timeout_s)
    finally:
        if resolver is None:
            used_resolver.close()
    for address in addresses:
        try:
            vet(address, allow_loopback=allow_loopback_http, allow_networks=allow_networks)
        except AddressRefused as error:
            raise AddressRefused(f"{checked.host}: {error.reason}") from None
        if checked.url.scheme == "http" and not is_loopback(address):
            raise UrlRefused(f"{checked.host}: plain http is for loopback only; use https")
    return CheckedUrl(url=checked.url, host=checked.host, port=checked.port, addresses=tuple(addresses))
