"""Servers that misbehave on purpose, and a name server that changes its mind."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

Conversation = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Listen = Callable[[Conversation], Awaitable[int]]


@pytest.fixture
async def listen() -> AsyncIterator[Listen]:
    """Start a raw TCP server on loopback that holds the given conversation; returns its port."""
    async with AsyncExitStack() as stack:

        async def start(conversation: Conversation) -> int:
            async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                try:
                    await conversation(reader, writer)
                except (ConnectionError, asyncio.IncompleteReadError):
                    return
                finally:
                    writer.close()

            server = await asyncio.start_server(once, "127.0.0.1", 0)
            stack.callback(server.close)
            return server.sockets[0].getsockname()[1]

        yield start


@pytest.fixture
def closed_port() -> int:
    """A loopback port on which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class ScriptedResolver:
    """Answers each look-up with the next list of addresses, the last one for ever."""

    def __init__(self, *answers: list[str]) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    async def addresses(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    def close(self) -> None:
        return


@pytest.fixture
def scripted() -> type[ScriptedResolver]:
    return ScriptedResolver
