"""What other people's queues do on this machine, each measured by its adapter in `benchmarks/peers`.

`make bench-peers` installs them below `.bench`; a peer that is not there is left out of the comparison.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

import orjson

from benchmarks.measure import BenchFailed

ROOT = Path(__file__).parents[1]
ADAPTERS = ROOT / "benchmarks" / "peers"
PYTHON = ("pgqueuer", "procrastinate", "oban", "dbos")
NODE = ("graphile-worker", "pg-boss")
TIMEOUT_S = 320.0
"""Longer than the adapters' own deadline, which says more about what happened."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One run of a peer. A rate, or for `latency` the median; `p99` is in milliseconds where single calls were timed."""

    value: float
    unit: str
    p99: float | None


def installed() -> list[str]:
    """The peers `make bench-peers` could install here, in the order they are listed in the documents."""
    return [name for name in (*PYTHON, *NODE) if _command(name) is not None]


async def peer(name: str, case: str, *, url: str, count: int, processes: int = 1) -> float | None:
    """The value of one run, or None when the peer is not installed."""
    reading = await read_peer(name, case, url=url, count=count, processes=processes)
    return None if reading is None else reading.value


async def read_peer(name: str, case: str, *, url: str, count: int, processes: int = 1) -> Reading | None:
    """One run with all it measured, or None when the peer is not installed. Its schema in the database is made anew."""
    command = _command(name)
    if command is None:
        return None
    process = await asyncio.create_subprocess_exec(
        *command,
        *("--url", url, "--case", case, "--count", str(count), "--processes", str(processes)),
        cwd=_directory(name),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(TIMEOUT_S):
            said, complained = await process.communicate()
    except TimeoutError as error:
        raise BenchFailed(f"{name} {case} did not finish within {TIMEOUT_S:.0f} s") from error
    finally:
        await _end(process)
    if process.returncode != 0:
        raise BenchFailed(f"{name} {case} failed: {complained.decode(errors='replace').strip()[-500:]}")
    return _parse(name, case, said)


def _parse(name: str, case: str, said: bytes) -> Reading:
    """Of what an adapter printed, the last line: a peer may have greeted before it."""
    try:
        line = orjson.loads(said.strip().rsplit(b"\n", 1)[-1])
        return Reading(value=float(line["value"]), unit=str(line["unit"]), p99=line.get("p99"))
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise BenchFailed(f"{name} {case} printed no measurement: {said.decode(errors='replace')[-200:]!r}") from error


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the adapter and the workers it started, which share its process group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    await process.wait()


def _directory(name: str) -> Path:
    """Where a peer is installed; `ONCEWARD_TEST_BENCH_DIR` moves it, for a checkout that shares another's."""
    return Path(os.environ.get("ONCEWARD_TEST_BENCH_DIR") or ROOT / ".bench").absolute() / name


def _command(name: str) -> list[str] | None:
    """How to start a peer's adapter, None when the peer or what runs it is not there."""
    place = _directory(name)
    if name not in (*PYTHON, *NODE):
        raise BenchFailed(f"there is no peer {name!r}; there are: {', '.join((*PYTHON, *NODE))}")
    if not (place / ".ready").exists():
        return None
    if name in PYTHON:
        program, adapter = place / "venv" / "bin" / "python", ADAPTERS / f"{name}.py"
    else:
        own = place / "node_modules" / ".bin" / "node"
        found = str(own) if own.exists() else shutil.which("node")
        if found is None:
            return None
        program, adapter = Path(found), ADAPTERS / f"{name}.mjs"
    return [str(program), str(adapter)] if adapter.exists() and program.exists() else None
