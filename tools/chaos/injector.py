"""Carry out the schedule of faults on the processes, links and servers of a run."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import asyncpg

from onceward.db import FAILED
from tools.chaos.clocks import Clock, find_library
from tools.chaos.cluster import Cluster
from tools.chaos.faults import SERVER_FAULTS, SINGLE_SERVER_FAULTS, Fault
from tools.chaos.nodes import Node
from tools.chaos.proxy import Link, Proxy
from tools.chaos.servers import Existing, Replicated, Single

FILLED = 150
DRIFT_EVERY_S = 0.5
LAG_S = 3.0
BACK_WITHIN_S = 240.0


@dataclass(frozen=True, slots=True)
class Injected:
    """One fault that happened, with the time (seconds since 1970) at which it began and at which its cause was removed."""

    kind: str
    began_s: float
    ended_s: float


class Injector:
    """Runs the faults at their times. A fault of the servers waits until the servers are healthy again."""

    def __init__(
        self, nodes: Sequence[Node], proxy: Proxy, servers: Existing | Replicated | Single, *, direct_url: str
    ) -> None:
        self._nodes = nodes
        self._proxy = proxy
        self._servers = servers
        self._direct_url = direct_url
        self._busy = asyncio.Lock()
        self._busy_nodes: set[str] = set()
        self.injected: list[Injected] = []
        self.ended_nodes: list[str] = []

    @property
    def cluster(self) -> Cluster:
        assert isinstance(self._servers, Replicated)
        return self._servers.cluster

    async def run(self, faults: Sequence[Fault]) -> None:
        began = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            for fault in faults:
                await asyncio.sleep(max(0.0, began + fault.at_s - time.monotonic()))
                if fault.kind in (*SERVER_FAULTS, *SINGLE_SERVER_FAULTS):
                    await self._on_servers(fault)
                else:
                    tasks.create_task(self._inject(fault))

    async def _on_servers(self, fault: Fault) -> None:
        """Faults of the servers delay the rest of the schedule: two at once could take away the majority."""
        async with self._busy:
            await self._inject(fault)
            await self._servers.wait_until_healthy(timeout_s=BACK_WITHIN_S)

    def holds(self, node: Node) -> bool:
        """Return whether a fault is busy with this node."""
        return node.name in self._busy_nodes

    def note_ends(self) -> None:
        """Note which nodes do not run although every fault is over."""
        for node in self._nodes:
            self._note_end(node)

    def _note_end(self, node: Node) -> None:
        if not node.runs:
            self.ended_nodes.append(node.name)

    async def _inject(self, fault: Fault) -> None:
        print(fault, flush=True)
        began_s = time.time()
        if fault.by_s and find_library() is None:
            print("        not injected: the package libfaketime is not installed", flush=True)
            return
        await getattr(self, f"_{fault.kind}")(fault)
        self.injected.append(Injected(fault.kind, began_s, time.time()))

    # -- nodes ---------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _node(self, fault: Fault):
        """Yield the node, or None if another fault has it."""
        node = self._nodes[fault.target]
        if node.name in self._busy_nodes:
            yield None
            return
        self._busy_nodes.add(node.name)
        self._note_end(node)
        try:
            yield node
        finally:
            self._busy_nodes.discard(node.name)

    async def _kill_node(self, fault: Fault) -> None:
        async with self._node(fault) as node:
            if node is not None:
                await node.kill()
                await asyncio.sleep(fault.lasts_s)
                await node.start()

    async def _restart_node(self, fault: Fault) -> None:
        async with self._node(fault) as node:
            if node is not None:
                await node.stop()
                await node.start()

    async def _freeze_node(self, fault: Fault) -> None:
        async with self._node(fault) as node:
            if node is not None:
                node.freeze()
                await asyncio.sleep(fault.lasts_s)
                node.thaw()

    async def _kill_command(self, fault: Fault) -> None:
        """Kill a command of an operator that rebuilds indexes one after another."""
        environ = {**os.environ, "ONCEWARD_DATABASE_URL": self._direct_url}
        command = (sys.executable, "-m", "onceward", "db", "compact")
        process = await asyncio.create_subprocess_exec(
            *command, env=environ, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
        )
        await asyncio.sleep(fault.lasts_s)
        if process.returncode is None:
            process.kill()
        await process.wait()

    # -- links ---------------------------------------------------------------------------------------------

    def _links(self, fault: Fault) -> Sequence[Link]:
        return self._proxy.select(node=self._nodes[fault.target].name)

    async def _cut_links(self, fault: Fault) -> None:
        for link in self._links(fault):
            link.cut()
        await asyncio.sleep(fault.lasts_s)
        self._restore(fault)

    async def _reset_links(self, fault: Fault) -> None:
        for link in self._links(fault):
            link.reset()

    async def _delay_links(self, fault: Fault) -> None:
        for link in self._links(fault):
            link.delay_s = 0.05
        await asyncio.sleep(fault.lasts_s)
        self._restore(fault)

    async def _hold_links(self, fault: Fault) -> None:
        for link in self._links(fault):
            link.hold()
        await asyncio.sleep(fault.lasts_s)
        self._restore(fault)

    def _restore(self, fault: Fault) -> None:
        for link in self._links(fault):
            link.restore()

    # -- sessions ------------------------------------------------------------------------------------------

    async def _hold_snapshot(self, fault: Fault) -> None:
        """Keep an old snapshot open, as a forgotten report does."""
        with contextlib.suppress(*FAILED):
            conn = await asyncpg.connect(self._direct_url, timeout=10)
            try:
                async with conn.transaction(isolation="repeatable_read"):
                    await conn.fetchval("select count(*) from chaos.effects")
                    await asyncio.sleep(fault.lasts_s)
            finally:
                conn.terminate()

    async def _fill_connections(self, fault: Fault) -> None:
        """Take most connections of the server."""
        taken: list[asyncpg.Connection] = []
        try:
            with contextlib.suppress(*FAILED):
                for _ in range(FILLED):
                    taken.append(await asyncpg.connect(self._direct_url, timeout=10))
            await asyncio.sleep(fault.lasts_s)
        finally:
            for conn in taken:
                conn.terminate()

    async def _fill_pools(self, fault: Fault) -> None:
        """Lock the table of the effects: every handler waits for it, until no pool of a node has a connection left."""
        with contextlib.suppress(*FAILED):
            conn = await asyncpg.connect(self._direct_url, timeout=10)
            try:
                async with conn.transaction():
                    await conn.execute("lock table chaos.effects in exclusive mode")
                    await asyncio.sleep(fault.lasts_s)
            finally:
                conn.terminate()

    # -- clocks --------------------------------------------------------------------------------------------

    async def _jump_node_clock(self, fault: Fault) -> None:
        await _jump(self._nodes[fault.target].clock, fault)

    async def _drift_node_clock(self, fault: Fault) -> None:
        """Move the clock a little every half second, then set it right at once."""
        clock = self._nodes[fault.target].clock
        steps = max(1, int(fault.lasts_s / DRIFT_EVERY_S))
        for step in range(steps):
            clock.set(fault.by_s * (step + 1) / steps)
            await asyncio.sleep(DRIFT_EVERY_S)
        clock.set(0.0)

    async def _jump_server_clock(self, fault: Fault) -> None:
        """Move the clock of the primary, or of any server, which a failover may make the primary meanwhile."""
        members = self.cluster.members
        any_server = members[fault.target % len(members)]
        server = any_server if fault.target % 2 else await self.cluster.wait_for_primary()
        await _jump(server.clock, fault)

    # -- servers -------------------------------------------------------------------------------------------

    async def _crash_server(self, fault: Fault) -> None:
        assert isinstance(self._servers, Single)
        self._servers.crash()

    async def _kill_primary(self, fault: Fault) -> None:
        primary = await self.cluster.wait_for_primary()
        await self.cluster.kill(primary)
        await asyncio.sleep(fault.lasts_s)
        await self.cluster.start_member(primary)

    async def _kill_postgres(self, fault: Fault) -> None:
        self.cluster.kill_postgres(await self.cluster.wait_for_primary())

    async def _freeze_primary(self, fault: Fault) -> None:
        """Freeze the primary for longer than its lock lasts, so that two servers believe to be the primary for a moment."""
        primary = await self.cluster.wait_for_primary()
        self.cluster.freeze(primary)
        await asyncio.sleep(fault.lasts_s)
        self.cluster.thaw(primary)

    async def _switch_over(self, fault: Fault) -> None:
        await self.cluster.switch_over()

    async def _kill_standby(self, fault: Fault) -> None:
        primary = await self.cluster.wait_for_primary()
        standby = next(member for member in self.cluster.members if member is not primary)
        await self.cluster.kill(standby)
        await asyncio.sleep(fault.lasts_s)
        await self.cluster.start_member(standby)

    async def _kill_lagging_primary(self, fault: Fault) -> None:
        """Stop replication for some seconds, then kill the primary. Without synchronous replication this loses commits."""
        primary = await self.cluster.wait_for_primary()
        receivers = [
            process
            for member in self.cluster.members
            if member is not primary
            for process in member.processes()
            if "walreceiver" in " ".join(process.cmdline())
        ]
        for process in receivers:
            process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(LAG_S)
        await self.cluster.kill(primary)
        for process in receivers:  # they may not read what the connection still holds
            process.kill()
        await asyncio.sleep(fault.lasts_s)
        await self.cluster.start_member(primary)


async def _jump(clock: Clock, fault: Fault) -> None:
    clock.set(fault.by_s)
    await asyncio.sleep(fault.lasts_s)
    clock.set(0.0)
