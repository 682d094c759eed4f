"""Everything that runs: the servers, the proxy, the outside world and the Onceward nodes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tools.chaos.clocks import Clock
from tools.chaos.nodes import Node, environ_of
from tools.chaos.observe import prepare
from tools.chaos.ports import free_ports
from tools.chaos.proxy import Proxy
from tools.chaos.servers import Existing, Replicated, Single
from tools.chaos.sink import Sink


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How large the system is."""

    cluster: bool = True
    database_url: str | None = None
    """Use this database instead of starting servers."""
    synchronous: bool = True
    web: int = 2
    workers: int = 3
    combined: int = 0
    """Nodes that are web node and worker in one process, as `onceward up` is."""

    @property
    def nodes(self) -> int:
        return self.web + self.workers + self.combined


class System:
    """Starts everything in the right order, and stops it."""

    def __init__(self, folder: Path, shape: Shape) -> None:
        self.folder = folder
        self.servers = _servers(folder, shape)
        self.proxy = Proxy()
        self.sink = Sink()
        self.nodes: list[Node] = []
        self.direct_url = ""
        self._shape = shape

    @property
    def web_urls(self) -> list[str]:
        return [node.url for node in self.nodes if node.kind != "worker"]

    @property
    def clocks(self) -> list[Clock]:
        members = self.servers.cluster.members if isinstance(self.servers, Replicated) else []
        return [each.clock for each in (*self.nodes, *members)]

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _start(self) -> None:
        await self.servers.start()
        self.direct_url = self.servers.url(await self.proxy.connect("direct", self.servers.targets))
        if isinstance(self.servers, Replicated):
            await self._create_database()
        await self.prepare()
        await self.sink.__aenter__()
        names = [("web", f"web-{n}") for n in range(self._shape.web)]
        names += [("worker", f"worker-{n}") for n in range(self._shape.workers)]
        names += [("all", f"node-{n}") for n in range(self._shape.combined)]
        for (kind, name), port in zip(names, free_ports(len(names)), strict=True):
            links = await self.proxy.connect(name, self.servers.targets)
            self.nodes.append(self.make_node(kind, name, self.servers.url(links), port))
        for node in self.nodes:
            await node.start()
        await asyncio.gather(*(node.wait_until_ready() for node in self.nodes))

    async def prepare(self) -> None:
        await prepare(self.direct_url)

    def make_node(self, kind: str, name: str, database_url: str, port: int) -> Node:
        environ = environ_of(
            database_url=database_url,
            sink_url=self.sink.url,
            mail_port=self.sink.mail.port,
            port=port,
            data_dir=self.folder / name,
        )
        return Node(name, kind, environ, self.folder / f"{name}.log")

    async def _create_database(self) -> None:
        import asyncpg

        conn = await asyncpg.connect(self.direct_url.replace("/onceward?", "/postgres?"), timeout=30)
        await conn.execute("create database onceward")
        await conn.close()

    async def repair(self) -> None:
        """Remove every fault: thaw and start the nodes, restore the links, wait for the servers."""
        for link in self.proxy.links:
            link.restore()
        for clock in self.clocks:
            clock.set(0.0)
        for node in self.nodes:
            node.thaw()
            if not node.runs:
                await node.start()
        await self.servers.wait_until_healthy(timeout_s=240)

    async def stop(self) -> None:
        for node in self.nodes:
            await node.kill()
        await self.proxy.close()
        await self.sink.__aexit__()
        await self.servers.stop()


def _servers(folder: Path, shape: Shape) -> Existing | Replicated | Single:
    if shape.database_url is not None:
        return Existing(shape.database_url)
    return Replicated(folder, synchronous=shape.synchronous) if shape.cluster else Single(folder)
