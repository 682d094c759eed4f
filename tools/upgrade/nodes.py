"""Processes of either version, started with the commands that an operator uses."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tools.upgrade.trees import Version

SECRET = "whsec_of_the_upgrade_which_is_long_enough"
READY_WITHIN_S = 120.0
PR_SET_PDEATHSIG = 1


def environ_of(*, database_url: str, sink_url: str, data_dir: Path) -> dict[str, str]:
    """Return the settings that all processes share."""
    return {
        "ONCEWARD_DATABASE_URL": database_url,
        "ONCEWARD_DATA_DIR": str(data_dir),
        "ONCEWARD_AUTO_MIGRATE": "false",
        "ONCEWARD_POOL_MAX": "6",
        "ONCEWARD_WORKER_CONCURRENCY": "8",
        "ONCEWARD_LOG_FORMAT": "json",
        "ONCEWARD_ACCESS_LOG": "false",
        "ONCEWARD_SHUTDOWN_GRACE_S": "5",
        "ONCEWARD_SECRET_KEY": "a key of the upgrade which is long enough",
        "ONCEWARD_SOURCE_STRIPE_SECRET": SECRET,
        "ONCEWARD_SOURCE_INLINE_SECRET": SECRET,
        "ONCEWARD_SOURCE_INLINE_PROVIDER": "stripe",
        "ONCEWARD_SOURCE_INLINE_MODE": "inline",
        "UPGRADE_SINK": f"{sink_url}/call",
    }


def _end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


async def spawn(
    version: Version, *arguments: str, environ: dict[str, str], stdout: int, stderr: IO[bytes] | int
) -> asyncio.subprocess.Process:
    """Run `onceward ...` of this version in the folder of its app."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "onceward",
        *arguments,
        cwd=version.app,
        env={**os.environ, **environ, "PYTHONPATH": str(version.source)},
        stdout=stdout,
        stderr=stderr,
        preexec_fn=_end_with_parent,
    )


async def command(version: Version, *arguments: str, environ: dict[str, str]) -> tuple[int, str]:
    """Run a command to its end. Return its exit code and its output."""
    pipe = asyncio.subprocess.PIPE
    process = await spawn(version, *arguments, environ=environ, stdout=pipe, stderr=asyncio.subprocess.STDOUT)
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


@dataclass(slots=True)
class Node:
    """One place for a process, as a machine or a pod is. `start` fills it with a process of a version."""

    name: str
    role: str
    environ: dict[str, str]
    log: Path
    process: asyncio.subprocess.Process | None = None
    version: str = ""
    endings: list[str] = field(default_factory=list[str])
    """Every end of a process that was not asked for, or not with exit code 0."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.environ['ONCEWARD_PORT']}"

    async def start(self, version: Version) -> None:
        """Start a process and wait until it says that it is up."""
        with self.log.open("ab") as log:
            self.process = await spawn(
                version, self.role, "shop:app", environ=self.environ, stdout=asyncio.subprocess.PIPE, stderr=log
            )
        self.version = version.name
        assert self.process.stdout is not None
        async with asyncio.timeout(READY_WITHIN_S):
            while line := await self.process.stdout.readline():
                if b" is up" in line:
                    return
        self.endings.append(f"{self.name}: the {version.name} version did not start, see {self.log}")

    async def stop(self) -> None:
        """Stop it as a deployment does: SIGTERM, and wait."""
        assert self.process is not None
        if self.process.returncode is not None:
            self.endings.append(
                f"{self.name}: the {self.version} version ended by itself with {self.process.returncode}"
            )
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(40):
                code = await self.process.wait()
        except TimeoutError:
            self.process.kill()
            code = await self.process.wait()
        if code != 0:
            self.endings.append(f"{self.name}: the {self.version} version ended with {code} when it was asked to stop")

    async def kill(self) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()
