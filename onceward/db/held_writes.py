"""Write two messages to PostgreSQL in one packet.

asyncpg writes each statement at once, and has no way to write something before it in the same packet. The server would
wake up twice. So its protocol gets a transport that can hold bytes until the next write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from asyncpg.protocol import Protocol


class HoldingTransport:
    """A transport that can hold bytes until the next write, and otherwise does what the real one does."""

    __slots__ = ("_held", "real")

    def __init__(self, real: Any) -> None:
        self.real = real
        self._held: bytes | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def hold(self, data: bytes) -> None:
        """Write this immediately before what is written next."""
        self._held = data

    def release(self) -> bool:
        """Forget what is held. Return whether there was something."""
        held, self._held = self._held, None
        return held is not None

    def write(self, data: Any) -> None:
        if self._held is None:
            self.real.write(data)
        else:
            held, self._held = self._held, None
            self.real.write(b"".join((held, data)))

    def writelines(self, data: list[Any]) -> None:
        if self._held is not None:
            data, self._held = [self._held, *data], None
        self.real.writelines(data)


class HoldingProtocol(Protocol):
    """asyncpg's protocol with such a transport."""

    holding: HoldingTransport

    def connection_made(self, transport: Any) -> None:
        self.holding = HoldingTransport(transport)
        super().connection_made(self.holding)  # pyright: ignore


class HoldingLoop:
    """The event loop that asyncpg gets when it connects: the transports that it returns can hold bytes."""

    def __init__(self, real: asyncio.AbstractEventLoop) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    async def create_connection(self, factory: Callable[[], Any], *args: Any, **options: Any) -> tuple[Any, Any]:
        return _holding(*await self._real.create_connection(_made_by(factory), *args, **options))

    async def create_unix_connection(self, factory: Callable[[], Any], *args: Any, **options: Any) -> tuple[Any, Any]:
        return _holding(*await self._real.create_unix_connection(_made_by(factory), *args, **options))

    async def start_tls(self, transport: HoldingTransport, *args: Any, **options: Any) -> HoldingTransport | None:
        upgraded = await self._real.start_tls(transport.real, *args, **options)
        return None if upgraded is None else HoldingTransport(upgraded)


def _made_by(factory: Callable[[], Any]) -> Callable[[], Any]:
    """Return the factory with our protocol in place of asyncpg's. A protocol that only asks for TLS stays."""

    def make() -> Any:
        protocol = factory()
        if type(protocol) is Protocol:
            protocol.__class__ = HoldingProtocol
        return protocol

    return make


def _holding(transport: Any, protocol: Any) -> tuple[HoldingTransport, Any]:
    return (protocol.holding if isinstance(protocol, HoldingProtocol) else HoldingTransport(transport)), protocol
