"""Name resolution in separate threads, so that a slow name server does not block the default thread pool."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from onceward.outside import leave

from .errors import HostUnreachable


class Resolver(Protocol):
    """Resolves host names for a client. Tests pass their own."""

    async def addresses(self, host: str, port: int) -> list[str]:
        """Return the addresses of a host; raise OSError (gaierror) if it has none."""
        ...

    def close(self) -> None: ...


class ThreadResolver:
    """Uses the resolver of the operating system, for at most `threads` lookups at a time."""

    def __init__(self, *, threads: int = 16) -> None:
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="onceward-dns")

    async def addresses(self, host: str, port: int) -> list[str]:
        leave("RESOLVE", host)
        results = await asyncio.get_running_loop().run_in_executor(
            self._pool, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        )
        # Without duplicates, in the order of the operating system (RFC 6724).
        return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in results))

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


async def resolve(resolver: Resolver, host: str, port: int, *, timeout_s: float) -> list[str]:
    """Return all addresses of a host; raise HostUnreachable with the reason if there are none."""
    try:
        async with asyncio.timeout(timeout_s):
            addresses = await resolver.addresses(host, port)
    except TimeoutError:
        raise HostUnreachable(f"{host}: the host name was not resolved within {timeout_s:g} s") from None
    except (OSError, UnicodeError) as error:
        raise HostUnreachable(f"{host}: the host name does not resolve ({error.__class__.__name__})") from None
    if not addresses:
        raise HostUnreachable(f"{host}: the host name has no addresses")
    return addresses
