"""Where the simulators of services listen: the only addresses that a handler may reach in a rehearsal."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import SplitResult, urlsplit

from onceward.rehearsal.guarded_process import Address

PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class SimulatorAddresses:
    """The URLs of simulators, with their hosts and ports."""

    urls: tuple[SplitResult, ...] = ()
    hosts: frozenset[str] = frozenset()
    listening: frozenset[Address] = field(default_factory=frozenset[Address])

    @classmethod
    def of(cls, simulators: Mapping[str, str] | None) -> Self:
        """Look up where these simulators listen. Do so before a rehearsal, which looks up nothing."""
        urls = tuple(urlsplit(url) for url in (simulators or {}).values())
        hosts = {url.hostname for url in urls if url.hostname}
        listening = {(ip, _port(url)) for url in urls if url.hostname for ip in _ips(url.hostname, _port(url))}
        return cls(urls, frozenset(hosts), frozenset(listening))

    def named(self, host: str) -> bool:
        """Return whether this is the host of a simulator."""
        return host.lower() in self.hosts

    def at(self, address: Address | None) -> bool:
        """Return whether a simulator listens there."""
        return address is not None and address in self.listening

    def answer(self, target: str) -> bool:
        """Return whether a simulator answers calls to this URL: same scheme, host and port, and below its path."""
        try:
            given = urlsplit(target)
            return any(_is_below(given, url) for url in self.urls)
        except ValueError:
            return False


def _is_below(given: SplitResult, url: SplitResult) -> bool:
    if (given.scheme, given.hostname, _port(given)) != (url.scheme, url.hostname, _port(url)):
        return False
    below = url.path.rstrip("/")
    return given.path == below or given.path.startswith(f"{below}/")


def _port(url: SplitResult) -> int | None:
    return url.port or PORTS.get(url.scheme)


def _ips(host: str, port: int | None) -> set[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return {host}
    return {host, *(str(address[0]) for *_, address in found)}


NO_SIMULATORS = SimulatorAddresses()
