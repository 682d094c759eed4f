"""The servers that `bench ingest` puts load on, each in its own process."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import orjson

from benchmarks.measure import UNSHARED, UNSHARED_ENVIRONMENT, BenchFailed
from benchmarks.servers import SECRET

CONNECTIONS = 64
MOST_PER_S = 25_000
"""How many requests are signed in advance: signing while sending would take CPU from the server."""


class Server:
    """One of the servers, with a method that puts load on it."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def load(
        self, for_s: float, *, path: str = "/webhooks/stripe", prepared: int | None = None, **more: Any
    ) -> dict[str, Any]:
        options = {
            "port": self.port,
            "path": path,
            "secret": SECRET,
            "connections": CONNECTIONS,
            "for_s": for_s,
            "prepared": int(for_s * MOST_PER_S) if prepared is None else prepared,
            **more,
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "benchmarks.load", orjson.dumps(options).decode(), stdout=asyncio.subprocess.PIPE
        )
        try:
            output, _ = await asyncio.wait_for(process.communicate(), timeout=for_s + 60)
        except TimeoutError:
            process.kill()
            raise BenchFailed("the load generator did not finish in time") from None
        if process.returncode != 0:
            raise BenchFailed(f"the load generator ended with {process.returncode}")
        answer: dict[str, Any] = orjson.loads(output)
        if set(answer["statuses"]) != {"200"}:
            raise BenchFailed(f"not every answer was 200: {answer['statuses']}")
        return answer


@asynccontextmanager
async def server(which: str, url: str) -> AsyncGenerator[Server]:
    """Run a server in its own process and stop it at the end. `UNSHARED` is ours without shared commits."""
    name, environment = ("ours", UNSHARED_ENVIRONMENT) if which == UNSHARED else (which, None)
    async with started((sys.executable, "-m", "benchmarks.ingest_server", name, url), environment) as port:
        yield Server(int(port))


@asynccontextmanager
async def started(command: Sequence[str], environment: Mapping[str, str] | None = None) -> AsyncGenerator[str]:
    """Run a program, yield the first line that it prints, and stop it at the end."""
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, env={**os.environ, **(environment or {})}
    )
    assert process.stdout is not None
    try:
        output = (await asyncio.wait_for(process.stdout.readline(), timeout=30)).decode().strip()
        if not output:
            raise BenchFailed(f"{' '.join(command)[:200]} did not start")
        yield output
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), timeout=10)
        except TimeoutError:
            process.kill()


class Sides:
    """The servers under comparison; each starts at first use."""

    def __init__(self, stack: AsyncExitStack, url: str, for_s: float) -> None:
        self._stack = stack
        self.url = url
        self._started: dict[str, Server] = {}
        self.for_s = for_s

    async def get(self, which: str) -> Server:
        if which not in self._started:
            self._started[which] = await self._stack.enter_async_context(server(which, self.url))
            await self._started[which].load(min(1.0, self.for_s), prepared=2000)
        return self._started[which]

    async def rate(self, which: str, **options: Any) -> float:
        return (await (await self.get(which)).load(self.for_s, **options))["rate"]
