"""Measure how long commands and processes take to start, and how much memory an idle process has.

A worker has started when it has run a job that waited for it. Nothing is imported in advance: each turn is a new
process. Compiled bytecode exists, because each case starts its process once before it measures.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.measure import BenchFailed, Measurement, Side, Size, compare
from benchmarks.peer import peer_program
from benchmarks.start_app import app, first
from onceward.db import Database, migrate
from onceward.runtime import FEATURES
from onceward.settings import Settings

CASES = ("help", "version", "endpoints-ls", "worker", "serve", "worker-memory", "serve-memory")
APP = "benchmarks.start_app:app"
STARTING = Path(__file__).parent / "peers" / "starting"
PEERS = {"graphile-worker": STARTING / "graphile-worker.mjs", "procrastinate": STARTING / "procrastinate_worker.py"}
TIMEOUT_S = 60.0
SETTLE_S = 2.0
"""How long a process is idle before its memory is read."""

HANDLED = re.compile(rb"^handled$", re.MULTILINE)
UP = re.compile(rb" is up ")


async def run(size: Size, url: str, *, only: str | None = None) -> list[Measurement]:
    """Run the cases. `help` and the other commands are compared with an interpreter that does nothing."""
    db = await Database.open(url)
    async with db.acquire() as conn:
        await migrate(conn, FEATURES.migrations)
    await db.close()
    turns = size.pick(7, 5, 1)
    measured: list[Measurement] = []
    for case in CASES if only is None else (only,):
        if case in ("help", "version", "endpoints-ls"):
            measured.append(await _command(case, url, turns))
        elif case == "worker":
            measured += await _worker(url, turns)
        elif case == "serve":
            measured.append(await _measured(case, lambda: _until(UP, "serve", url), "ms", turns))
        elif case in ("worker-memory", "serve-memory"):
            role = case.removesuffix("-memory")
            measured.append(await _measured(case, lambda role=role: _memory(role, url), "MiB", size.pick(3, 3, 1)))
    return measured


async def _measured(case: str, ours: Side, unit: str, turns: int) -> Measurement:
    await ours()
    return await compare("start", case, ours, unit=unit, turns=turns, smaller_is_better=True)


async def _command(case: str, url: str, turns: int) -> Measurement:
    arguments = {"help": ["--help"], "version": ["version"], "endpoints-ls": ["endpoints", "ls"]}[case]

    async def ours() -> float:
        return await _until_end([sys.executable, "-m", "onceward", *arguments], url)

    async def nothing() -> float:
        return await _until_end([sys.executable, "-c", "pass"], url)

    await ours()
    return await compare(
        "start", case, ours, unit="ms", baseline="python -c pass", theirs=nothing, turns=turns, smaller_is_better=True
    )


async def _worker(url: str, turns: int) -> list[Measurement]:
    async def ours() -> float:
        async with app.engine(settings=Settings(database_url=url)) as engine:  # pyright: ignore[reportArgumentType]
            await engine.enqueue(first)
        return await _until(HANDLED, "worker", url)

    await ours()
    measured: list[Measurement] = []
    for name in PEERS:
        theirs = await _peer_side(name, url)
        if theirs is not None:
            measured.append(
                await compare(
                    "start",
                    "worker",
                    ours,
                    unit="ms",
                    baseline=name,
                    theirs=theirs,
                    turns=turns,
                    smaller_is_better=True,
                )
            )
    if not measured:
        measured.append(await _measured("worker", ours, "ms", turns))
    return measured


async def _peer_side(name: str, url: str) -> Side | None:
    """Install the peer and return its turn: a job is enqueued, then a new worker runs it. None if it is not
    installed.
    """
    program = peer_program(name)
    if program is None:
        return None
    command = [str(program.interpreter), str(PEERS[name])]

    async def theirs() -> float:
        await _until_end([*command, "enqueue", url], url, cwd=program.directory)
        async with _started([*command, "work", url], url, cwd=program.directory) as process:
            return await process.wait_for(HANDLED)

    await _until_end([*command, "install", url], url, cwd=program.directory)
    await theirs()
    return theirs


async def _until_end(command: Sequence[str], url: str, *, cwd: Path | None = None) -> float:
    """Run a command to its end and return the milliseconds that it took."""
    async with _started(command, url, cwd=cwd) as process:
        return await process.end()


async def _until(line: re.Pattern[bytes], role: str, url: str) -> float:
    async with _started([sys.executable, "-m", "onceward", role, APP], url) as process:
        return await process.wait_for(line)


async def _memory(role: str, url: str) -> float:
    """Return the resident memory of an idle process in MiB."""
    async with _started([sys.executable, "-m", "onceward", role, APP], url) as process:
        await process.wait_for(UP)
        await asyncio.sleep(SETTLE_S)
        return process.resident_mib()


class _Started:
    def __init__(self, process: asyncio.subprocess.Process, started: float) -> None:
        self._process = process
        self._started = started

    async def wait_for(self, line: re.Pattern[bytes]) -> float:
        """Return the milliseconds until the process prints a line."""
        assert self._process.stdout is not None
        async with asyncio.timeout(TIMEOUT_S):
            async for printed in self._process.stdout:
                if line.search(printed):
                    return (time.perf_counter() - self._started) * 1000
        raise BenchFailed("the process ended before it was ready")

    async def end(self) -> float:
        async with asyncio.timeout(TIMEOUT_S):
            await self._process.communicate()
        if self._process.returncode != 0:
            raise BenchFailed(f"the command ended with exit code {self._process.returncode}")
        return (time.perf_counter() - self._started) * 1000

    def resident_mib(self) -> float:
        with open(f"/proc/{self._process.pid}/status", encoding="ascii") as status:
            [kib] = [line.split()[1] for line in status if line.startswith("VmRSS:")]
        return int(kib) / 1024


@asynccontextmanager
async def _started(command: Sequence[str], url: str, *, cwd: Path | None = None) -> AsyncGenerator[_Started]:
    started = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd,
        env={**os.environ, "ONCEWARD_DATABASE_URL": url, "ONCEWARD_PORT": "0"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield _Started(process, started)
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
