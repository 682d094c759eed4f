"""The same faults with a peer instead of Onceward: two processes enqueue jobs, three work on them; then count.

A job inserts one row. The peer has no promise about exactly one effect, so the counts are reported, not judged.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from onceward.db import FAILED
from tools.chaos.faults import Fault
from tools.chaos.injector import Injector
from tools.chaos.nodes import Node
from tools.chaos.system import Shape, System

HERE = Path(__file__).parent
RESTART_AFTER_S = 1.0
LEFT = "select count(*) from procrastinate_jobs where status in ('todo', 'doing') and task_name = 'effect'"
STATES = "select status::text, count(*) from procrastinate_jobs where task_name = 'effect' group by 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerOutcome:
    """What became of the acknowledged jobs."""

    acknowledged: int
    lost: int
    doubled: int
    unacknowledged: int
    """Jobs that ran although their commit was not acknowledged, which is allowed."""
    states: dict[str, int]
    waited_s: float
    restarts: int
    faults: int


def interpreter(name: str) -> Path:
    """Return the peer's Python, which `make bench-peers` installs."""
    directory = Path(os.environ.get("ONCEWARD_TEST_BENCH_DIR", HERE.parents[2] / ".bench"))
    found = directory / name / "venv/bin/python"
    if not found.exists():
        raise SystemExit(f"{found} does not exist: run `make bench-peers` first")
    return found


class PeerSystem(System):
    """The servers and the proxy of Onceward's runs, with the peer's processes."""

    def __init__(self, folder: Path, shape: Shape, *, peer: str, rate: float) -> None:
        super().__init__(folder, shape)
        self._command = (str(interpreter(peer)), str(HERE / f"with_{peer}.py"))
        self._rate = rate / shape.web
        self.acknowledged_path = folder / "acknowledged"
        self.supervised_restarts = 0

    async def prepare(self) -> None:
        process = await asyncio.create_subprocess_exec(*self._command, "schema", env=self._environ(self.direct_url))
        if await process.wait():
            raise RuntimeError("the peer could not create its schema")

    def make_node(self, kind: str, name: str, database_url: str, port: int) -> Node:
        kind = "enqueuer" if kind == "web" else "worker"
        command = (*self._command, kind)
        return Node(name, kind, self._environ(database_url), self.folder / f"{name}.log", command=command)

    def _environ(self, url: str) -> dict[str, str]:
        return {
            "PEER_URL": f"{url}&connect_timeout=5",
            "PEER_RATE": str(self._rate),
            "PEER_ACKNOWLEDGED": str(self.acknowledged_path),
            "PYTHONUNBUFFERED": "1",
        }

    async def supervise(self, injector: Injector) -> None:
        """Restart processes that end by themselves."""
        while True:
            await asyncio.sleep(RESTART_AFTER_S)
            for node in self.nodes:
                if not node.runs and not injector.holds(node):
                    self.supervised_restarts += 1
                    await node.start()


async def run_peer(
    folder: Path, shape: Shape, faults: Sequence[Fault], *, peer: str, duration_s: float, rate: float, patience_s: float
) -> PeerOutcome:
    """Run the faults, repair everything, and wait until all jobs are done, at most `patience_s`."""
    async with PeerSystem(folder, shape, peer=peer, rate=rate) as system:
        injector = Injector(system.nodes, system.proxy, system.servers, direct_url=system.direct_url)
        supervising = asyncio.create_task(system.supervise(injector))
        ends = time.monotonic() + duration_s
        try:
            await injector.run(faults)
            await asyncio.sleep(max(0.0, ends - time.monotonic()))
            await system.repair()
            supervising.cancel()
            for node in system.nodes:
                if node.kind == "enqueuer":
                    await node.kill()
            system.nodes[:] = [node for node in system.nodes if node.kind == "worker"]
            supervising = asyncio.create_task(system.supervise(injector))
            waited_s = await _until_done(system.direct_url, patience_s)
            return await _count(system, injector, waited_s)
        finally:
            supervising.cancel()


async def _until_done(url: str, patience_s: float) -> float:
    began = time.monotonic()
    while time.monotonic() - began < patience_s:
        with contextlib.suppress(*FAILED):
            conn = await asyncpg.connect(url, timeout=10)
            try:
                if await conn.fetchval(LEFT) == 0:
                    break
            finally:
                conn.terminate()
        await asyncio.sleep(0.5)
    return time.monotonic() - began


async def _count(system: PeerSystem, injector: Injector, waited_s: float) -> PeerOutcome:
    conn = await asyncpg.connect(system.direct_url, timeout=30)
    runs = Counter(row["ref"] for row in await conn.fetch("select ref from chaos.effects"))
    states = {row[0]: row[1] for row in await conn.fetch(STATES)}
    await conn.close()
    acknowledged = {int(line) for line in system.acknowledged_path.read_text().splitlines() if line}
    return PeerOutcome(
        acknowledged=len(acknowledged),
        lost=sum(n not in runs for n in acknowledged),
        doubled=sum(count > 1 for count in runs.values()),
        unacknowledged=sum(n not in acknowledged for n in runs),
        states=states,
        waited_s=waited_s,
        restarts=system.supervised_restarts,
        faults=len(injector.injected),
    )


def print_peer(outcome: PeerOutcome) -> None:
    print(f"\n{outcome.faults} faults; processes that ended by themselves and were started again: {outcome.restarts}")
    print(f"jobs acknowledged {outcome.acknowledged}, without effect {outcome.lost}, doubled effects {outcome.doubled}")
    print(f"jobs that ran without an acknowledgement (allowed): {outcome.unacknowledged}")
    print(f"states {outcome.waited_s:.0f} s after the end of the load and the faults: {outcome.states}")
