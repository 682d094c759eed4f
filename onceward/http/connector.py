"""Our resolver for the connector of aiohttp. Only this module derives from a class of aiohttp."""

from __future__ import annotations

import socket

from aiohttp.abc import AbstractResolver, ResolveResult

from .resolver import Resolver


class ConnectorResolver(AbstractResolver):
    """Adapts a `Resolver` to the interface of aiohttp's connector."""

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
