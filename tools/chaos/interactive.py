"""`make cluster`: start three PostgreSQL servers under Patroni, two web nodes and three workers, until Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import tempfile
from pathlib import Path

from tools.chaos.servers import Replicated
from tools.chaos.system import Shape, System


async def serve(folder: Path) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with System(folder, Shape()) as system:
        assert isinstance(system.servers, Replicated)
        for member in system.servers.cluster.members:
            print(
                f"{member.name}: PostgreSQL on port {member.port}, Patroni at "
                f"http://127.0.0.1:{member.api_port}/cluster"
            )
        for node in system.nodes:
            address = f" at {node.url}" if node.kind == "web" else ""
            print(f"{node.name}{address}, process {node.process.pid if node.process else '-'}, log {node.log}")
        print(f"ONCEWARD_DATABASE_URL={system.direct_url}")
        print("Kill any of these processes and watch the logs; Ctrl-C ends everything.", flush=True)
        await stopped.wait()


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="onceward-cluster-"))
    try:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(serve(folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
