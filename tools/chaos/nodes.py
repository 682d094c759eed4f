"""The Onceward processes: started once, then killed, frozen and started again by the schedule of faults, never by a failover."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tools.chaos.clocks import Clock

ROOT = Path(__file__).parents[2]
SECRET = "whsec_of_the_chaos_which_is_long_enough"
READY_WITHIN_S = 180.0


@dataclass(slots=True)
class Node:
    """One process. `restarts` counts the starts after the first one."""

    name: str
    kind: str
    environ: dict[str, str]
    log: Path
    process: asyncio.subprocess.Process | None = None
    restarts: int = -1
    frozen: bool = False
    clock: Clock = field(init=False)
    command: tuple[str, ...] = ()
    """What to run instead of a node of Onceward."""
    _output: IO[bytes] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.clock = Clock(self.log.with_suffix(".clock"))

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.returncode is None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.environ['ONCEWARD_PORT']}"

    async def start(self) -> None:
        """Start the process. It is not awaited: `wait_until_ready` does that where it matters."""
        if self._output is None:
            self._output = self.log.open("ab")
        self.process = await asyncio.create_subprocess_exec(
            *(self.command or (sys.executable, "-m", "tools.chaos.node", self.kind)),
            cwd=ROOT,
            env={**os.environ, **self.environ, **self.clock.environ},
            stdout=asyncio.subprocess.PIPE,
            stderr=self._output,
        )
        self.restarts += 1

    async def wait_until_ready(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        async with asyncio.timeout(READY_WITHIN_S):
            line = await self.process.stdout.readline()
        if line.strip() != b"ready":
            raise RuntimeError(f"{self.name} did not start: see {self.log}")

    async def kill(self) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()
        self.frozen = False

    async def stop(self) -> None:
        """Stop it as a deploy does."""
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(40):
                    await self.process.wait()
            except TimeoutError:
                await self.kill()

    def freeze(self) -> None:
        if self.runs and self.process is not None:
            self.process.send_signal(signal.SIGSTOP)
            self.frozen = True

    def thaw(self) -> None:
        if self.runs and self.process is not None and self.frozen:
            self.process.send_signal(signal.SIGCONT)
        self.frozen = False


def environ_of(*, database_url: str, sink_url: str, mail_port: int, port: int, data_dir: Path) -> dict[str, str]:
    """Return the settings of one node."""
    return {
        "ONCEWARD_DATABASE_URL": database_url,
        "ONCEWARD_DATABASE_WAIT_S": "300",
        "ONCEWARD_DATA_DIR": str(data_dir),
        "ONCEWARD_PORT": str(port),
        "ONCEWARD_POOL_MAX": "6",
        "ONCEWARD_WORKER_CONCURRENCY": "16",
        "ONCEWARD_LOG_LEVEL": "info",
        "ONCEWARD_LOG_FORMAT": "json",
        "ONCEWARD_ACCESS_LOG": "false",
        "ONCEWARD_SHUTDOWN_GRACE_S": "5",
        "ONCEWARD_SECRET_KEY": "a key of the chaos which is long enough",
        "ONCEWARD_ALLOW_LOOPBACK_ENDPOINTS": "true",
        "ONCEWARD_SMTP_HOST": "127.0.0.1",
        "ONCEWARD_SMTP_PORT": str(mail_port),
        "ONCEWARD_SMTP_TLS": "none",
        "ONCEWARD_MAIL_FROM": "chaos@example.org",
        "ONCEWARD_SOURCE_STRIPE_SECRET": SECRET,
        "ONCEWARD_SOURCE_STRIPE_ORGANIZATION": "chaos",
        "ONCEWARD_SOURCE_INLINE_SECRET": SECRET,
        "ONCEWARD_SOURCE_INLINE_PROVIDER": "stripe",
        "ONCEWARD_SOURCE_INLINE_MODE": "inline",
        "ONCEWARD_SOURCE_INLINE_ORGANIZATION": "chaos",
        "CHAOS_SINK": sink_url,
    }
