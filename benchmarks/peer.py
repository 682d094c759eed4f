"""Measure other queues on this machine, each by its adapter in `benchmarks/peers`.

`make bench-peers` installs them below `.bench`. The comparison omits a peer that is not installed.
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
WEBHOOKS = ("webhooks_procrastinate", "webhooks_celery")
"""Applications that receive webhooks and handle them with a queue. `bench ingest end-to-end` starts them itself."""
TIMEOUT_S = 320.0
"""Longer than the adapters' own deadline, whose error says more."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One run of a peer: a rate, or the median for `latency`. `p99` is in ms, if single calls were timed."""

    value: float
    unit: str
    p99: float | None


def installed() -> list[str]:
    """Return the installed peers, in the order of the documentation."""
    return [name for name in (*PYTHON, *NODE) if _command(name) is not None]


async def peer(
    name: str,
    case: str,
    *,
    url: str,
    count: int,
    processes: int = 1,
    per_call: int | None = None,
    writes: str | None = None,
) -> float | None:
    """Return the value of one run, or None if the peer is not installed. `per_call`: jobs in one call of `bulk`.

    `writes` is what each handler of a drain writes in a commit of its own: `insert` or `update`, or `ordered`, which
    inserts from ordered lanes.
    """
    reading = await read_peer(name, case, url=url, count=count, processes=processes, per_call=per_call, writes=writes)
    return None if reading is None else reading.value


async def read_peer(
    name: str,
    case: str,
    *,
    url: str,
    count: int,
    processes: int = 1,
    per_call: int | None = None,
    writes: str | None = None,
) -> Reading | None:
    """Recreate the peer's schema, run the case, and return all values, or None if the peer is not installed."""
    command = _command(name)
    if command is None:
        return None
    process = await asyncio.create_subprocess_exec(
        *command,
        *("--url", url, "--case", case, "--count", str(count), "--processes", str(processes)),
        *(() if per_call is None else ("--per-call", str(per_call))),
        cwd=_directory(name),
        env={**os.environ, "BENCH_WRITES": writes or ""},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(TIMEOUT_S):
            output, complained = await process.communicate()
    except TimeoutError as error:
        raise BenchFailed(f"{name} {case} did not finish within {TIMEOUT_S:.0f} s") from error
    finally:
        await _end(process)
    if process.returncode != 0:
        raise BenchFailed(f"{name} {case} failed: {complained.decode(errors='replace').strip()[-500:]}")
    return _parse(name, case, output)


def _parse(name: str, case: str, output: bytes) -> Reading:
    """Read the last line of an adapter's output: a peer may have printed something before it."""
    try:
        line = orjson.loads(output.strip().rsplit(b"\n", 1)[-1])
        return Reading(value=float(line["value"]), unit=str(line["unit"]), p99=line.get("p99"))
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise BenchFailed(
            f"{name} {case} printed no measurement: {output.decode(errors='replace')[-200:]!r}"
        ) from error


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill the adapter and its workers, which share its process group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    await process.wait()


def application(name: str) -> list[str] | None:
    """Return the command of one of `WEBHOOKS`, to be completed by `serve` or `work`, or None if it is not installed."""
    place = _directory(name)
    return (
        [str(place / "venv" / "bin" / "python"), str(ADAPTERS / f"{name}.py")] if (place / ".ready").exists() else None
    )


def _directory(name: str) -> Path:
    """Return the directory of a peer. `ONCEWARD_TEST_BENCH_DIR` lets several checkouts share one."""
    return Path(os.environ.get("ONCEWARD_TEST_BENCH_DIR") or ROOT / ".bench").absolute() / name


@dataclass(frozen=True, slots=True)
class PeerProgram:
    """Where a peer is installed, and the interpreter that runs it."""

    directory: Path
    interpreter: Path


def peer_program(name: str) -> PeerProgram | None:
    """Return how to run a program of a peer, or None if the peer or its interpreter is not installed."""
    place = _directory(name)
    if name not in (*PYTHON, *NODE):
        raise BenchFailed(f"there is no peer {name!r}; there are: {', '.join((*PYTHON, *NODE))}")
    if not (place / ".ready").exists():
        return None
    if name in PYTHON:
        interpreter = place / "venv" / "bin" / "python"
    else:
        own = place / "node_modules" / ".bin" / "node"
        node = str(own) if own.exists() else shutil.which("node")
        if node is None:
            return None
        interpreter = Path(node)
    return PeerProgram(place, interpreter) if interpreter.exists() else None


def _command(name: str) -> list[str] | None:
    """Return the command of a peer's adapter, or None if the peer or its interpreter is not installed."""
    program = peer_program(name)
    adapter = ADAPTERS / f"{name}.{'py' if name in PYTHON else 'mjs'}"
    return None if program is None or not adapter.exists() else [str(program.interpreter), str(adapter)]
