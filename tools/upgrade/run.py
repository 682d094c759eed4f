"""One upgrade: old nodes under load, migrate, replace them one by one, go back with one node, contract, check."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from onceward.db import Database
from tools.chaos.ports import free_ports
from tools.chaos.sink import Sink
from tools.upgrade.checker import Observation, problems
from tools.upgrade.load import Load
from tools.upgrade.nodes import Node, command, environ_of
from tools.upgrade.trees import Version, Versions

DRAINED_WITHIN_S = 30.0
PASSES_WITHIN_S = 30.0


class Stalled(Exception):
    """The traffic stands still."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a run is."""

    roles: tuple[str, ...] = ("serve", "serve", "worker", "worker")
    rate: float = 40.0
    acknowledged_between_steps: int = 80
    goes_back: bool = True


@dataclass(slots=True)
class Upgrade:
    versions: Versions
    shape: Shape
    environ: dict[str, str]
    nodes: list[Node]
    load: Load
    say: Callable[[str], None]
    seen: Observation = field(default_factory=Observation)

    async def run(self) -> None:
        """The steps of docs/upgrading.md, with traffic between them."""
        old, new = self.versions.old, self.versions.new
        await self.pass_traffic("old nodes")
        await self.migrate(new, expected="deferred")
        await self.pass_traffic("old nodes on the expanded schema")
        for node in self.nodes:
            await self.replace(node, new)
        if self.shape.goes_back:
            await self.replace(self.nodes[-1], old)
            await self.replace(self.nodes[-1], new)
        await self.migrate(new, expected="applied")
        await self.pass_traffic("new nodes on the contracted schema")

    async def pass_traffic(self, where: str) -> None:
        """Wait until some webhooks were acknowledged. Raises `Stalled` if they are not."""
        began, before = time.monotonic(), self.load.acknowledged
        while self.load.acknowledged < before + self.shape.acknowledged_between_steps:
            if time.monotonic() > began + PASSES_WITHIN_S:
                raise Stalled(
                    f"{where}: only {self.load.acknowledged - before} webhooks were acknowledged in "
                    f"{PASSES_WITHIN_S:.0f} s"
                )
            await asyncio.sleep(0.02)
        self.say(f"{where}: {self.load.acknowledged - before} webhooks in {time.monotonic() - began:.1f} s")

    async def migrate(self, version: Version, *, expected: str) -> None:
        began = time.monotonic()
        code, output = await command(version, "migrate", "shop:app", environ=self.environ)
        self.say(f"migrate: exit code {code} after {time.monotonic() - began:.1f} s, expected: {expected}")
        if code != 0 or expected not in output:
            self.seen.failed_commands.append(f"migrate ended with {code}, expected a file that is {expected}: {output}")

    async def replace(self, node: Node, version: Version) -> None:
        began = time.monotonic()
        await node.stop()
        await node.start(version)
        self.say(f"{node.name} has the {version.name} version after {time.monotonic() - began:.1f} s")
        await self.pass_traffic(f"{node.name} replaced")


async def run(
    folder: Path, versions: Versions, shape: Shape, database_url: str, *, say: Callable[[str], None] = print
) -> tuple[Observation, list[str]]:
    """Run an upgrade on an empty database. Return what was seen, and the violated clauses."""
    async with Sink() as sink:
        environ = environ_of(database_url=database_url, sink_url=sink.url, data_dir=folder / "data")
        nodes = [
            Node(f"{role}-{n}", role, {**environ, "ONCEWARD_PORT": str(port)}, folder / f"{role}-{n}.log")
            for n, (role, port) in enumerate(zip(shape.roles, free_ports(len(shape.roles)), strict=True))
        ]
        urls = [node.url for node in nodes if node.role != "worker"]
        upgrade = Upgrade(versions, shape, environ, nodes, Load(urls, rate=shape.rate), say)
        try:
            code, output = await command(versions.old, "migrate", "shop:app", environ=environ)
            if code != 0:
                raise RuntimeError(f"the old version cannot migrate an empty database: {output}")
            for node in nodes:
                await node.start(versions.old)
            sending = asyncio.create_task(upgrade.load.run())
            try:
                await upgrade.run()
            except Stalled as error:
                upgrade.seen.failed_commands.append(str(error))
            finally:
                upgrade.load.stop()
                await sending
            await observe(upgrade, sink, database_url)
        finally:
            for node in nodes:
                await node.kill()
        return upgrade.seen, problems(upgrade.seen)


async def observe(upgrade: Upgrade, sink: Sink, database_url: str) -> None:
    """Wait until the work is done, stop the nodes, and collect what happened."""
    seen = upgrade.seen
    db = await Database.open(database_url, min_size=1, max_size=2)
    waiting = "select count(*) from onceward.work where kind in ('event', 'job') and dead_reason is null"
    ends = time.monotonic() + DRAINED_WITHIN_S
    while (left := await db.fetchval(waiting)) and time.monotonic() < ends:
        await asyncio.sleep(0.05)
    for node in upgrade.nodes:
        await node.stop()
    seen.unfinished = left
    seen.dead_letters = await db.fetchval("select count(*) from onceward.work where dead_reason is not null")
    seen.answers = upgrade.load.answers
    seen.effects = [(row["kind"], row["n"], row["release"]) for row in await db.fetch("select * from shop.effects")]
    seen.calls = [(call.ref, call.key) for call in sink.calls]
    seen.endings = [ending for node in upgrade.nodes for ending in node.endings]
    await db.close()
    code, output = await command(
        upgrade.versions.new, "verify", environ={**upgrade.environ, "ONCEWARD_APP": "shop:app"}
    )
    if code != 0:
        seen.failed_commands.append(f"verify ended with {code}: {output}")
