"""Name resolution in threads of its own, so that one slow name server does not starve the process's pool."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from aiohttp.abc import AbstractResolver, ResolveResult

from .errors import Unreachable


class Resolver(Protocol):
    """What a client asks for the addresses of a name; tests give their own."""

    async def addresses(self, host: str, port: int) -> list[str]:
        """The addresses of a host; raises OSError (gaierror) when there are none."""
        ...

    def close(self) -> None: ...


class ThreadResolver:
    """The system's resolver, `threads` look-ups at a time."""

    def __init__(self, *, threads: int = 16) -> None:
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="onceward-dns")

    async def addresses(self, host: str, port: int) -> list[str]:
        found = await asyncio.get_running_loop().run_in_executor(
            self._pool, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        )
        # In the system's order (RFC 6724), each once.
        return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class ConnectorResolver(AbstractResolver):
    """Our resolver in the shape that aiohttp's connector asks for."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address in await self._resolver.addresses(host, port)
        ]

    async def close(self) -> None:
        self._resolver.close()


async def resolve(resolver: Resolver, host: str, port: int, *, timeout_s: float) -> list[str]:
    """All addresses of a host, or Unreachable with the reason."""
    try:
        async with asyncio.timeout(timeout_s):
            found = await resolver.addresses(host, port)
    except TimeoutError:
        raise Unreachable(f"{host}: the name was not resolved within {timeout_s:g} s") from None
    except (OSError, UnicodeError) as error:
        raise Unreachable(f"{host}: the name does not resolve ({error.__class__.__name__})") from None
    if not found:
        raise Unreachable(f"{host}: the name has no addresses")
    return found
