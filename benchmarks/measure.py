"""Measure a case and its baseline in turns, so that a noisy machine disturbs both equally."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from statistics import median
from typing import TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

import orjson

Side = Callable[[], Awaitable[float]]
"""One turn of one side: runs for a while and returns its rate or time in the unit of the measurement."""


UNSHARED = "our own without shared commits"
UNSHARED_ENVIRONMENT = {"BENCH_UNSHARED": "1"}
"""Lets a process of ours run every handler in a commit of its own, as a baseline."""


def is_unshared() -> bool:
    return bool(os.environ.get("BENCH_UNSHARED"))


UNFAIR_ENVIRONMENT = {"BENCH_UNFAIR": "1"}
"""Lets a process of ours claim all work by time, without turns between organizations, as a baseline."""


def is_unfair() -> bool:
    return bool(os.environ.get("BENCH_UNFAIR"))


Number = TypeVar("Number", int, float)


class Size(StrEnum):
    """How much a benchmark does: a full measurement, a shorter one, or just enough to show that the case runs."""

    FULL = "full"
    QUICK = "quick"
    SMOKE = "smoke"

    def pick(self, full: Number, quick: Number, smoke: Number) -> Number:
        return {Size.FULL: full, Size.QUICK: quick, Size.SMOKE: smoke}[self]

    def turns(self, full: int = 3, quick: int | None = None) -> int:
        """Return how often both sides of a comparison are measured."""
        return self.pick(full, full if quick is None else quick, 1)


@dataclass(frozen=True, slots=True)
class Measurement:
    """Medians of the turns. A `ratio` above 1 is better than the baseline; `spread` is (largest - smallest) /
    median.
    """

    bench: str
    case: str
    value: float
    unit: str
    baseline: str | None
    baseline_value: float | None
    ratio: float | None
    spread: float

    def __post_init__(self) -> None:
        # A run takes minutes: print each turn.
        beside = "" if self.ratio is None else f", {self.ratio:.2f} of {self.baseline} ({self.baseline_value:,.1f})"
        sys.stderr.write(f"{self.bench} {self.case}: {self.value:,.1f} {self.unit}{beside}\n")
        sys.stderr.flush()

    def line(self) -> str:
        """Return the measurement as one line of JSON."""
        rounded = {key: round(value, 3) if isinstance(value, float) else value for key, value in asdict(self).items()}
        return orjson.dumps(rounded).decode()


class BenchFailed(Exception):
    """The program of a baseline did not run, or its output could not be read."""


async def compare(
    bench: str,
    case: str,
    ours: Side,
    *,
    unit: str,
    baseline: str | None = None,
    theirs: Side | None = None,
    turns: int = 3,
    smaller_is_better: bool = False,
) -> Measurement:
    """Measure both sides in turns and return the medians. The ratio is the median of the ratios of each turn."""
    mine: list[float] = []
    other: list[float] = []
    for _ in range(turns):
        mine.append(await ours())
        if theirs is not None:
            other.append(await theirs())
    pairs = zip(mine, other, strict=False)
    ratios = [b / a if smaller_is_better else a / b for a, b in pairs if a and b]
    value = median(mine)
    return Measurement(
        bench=bench,
        case=case,
        value=value,
        unit=unit,
        baseline=baseline if other else None,
        baseline_value=median(other) if other else None,
        ratio=median(ratios) if ratios else None,
        spread=(max(mine) - min(mine)) / value if value else 0.0,
    )


async def rate(callers: Sequence[Callable[[], Awaitable[int]]], *, for_s: float) -> float:
    """Let all callers repeat their call for a while, and return their total rate per second."""
    ends = time.perf_counter() + for_s

    async def again(call: Callable[[], Awaitable[int]]) -> int:
        done = 0
        while time.perf_counter() < ends:
            done += await call()
        return done

    started = time.perf_counter()
    done = await asyncio.gather(*(again(call) for call in callers))
    return sum(done) / (time.perf_counter() - started)


async def pgbench(
    url: str,
    script: str,
    *,
    clients: int,
    for_s: float = 0.0,
    transactions: int | None = None,
    threads: int = 1,
    variables: Mapping[str, int] | None = None,
    protocol: str = "prepared",
    warm_up: int = 0,
) -> float:
    """Return the transactions per second of a pgbench script, run for `for_s` seconds or `transactions` per client.

    The first `warm_up` transactions of each client do not count: a new connection has neither plans nor a catalog
    cache.
    """
    with tempfile.TemporaryDirectory(prefix="onceward-bench-") as directory:
        file = Path(directory) / "script.sql"
        file.write_text(script, encoding="utf-8")
        process = await asyncio.create_subprocess_exec(
            str(_pgbench()),
            *("--no-vacuum", f"--protocol={protocol}", f"--file={file}", f"--client={clients}", f"--jobs={threads}"),
            f"--time={max(1, round(for_s))}" if transactions is None else f"--transactions={transactions}",
            *(f"--define={name}={value}" for name, value in (variables or {}).items()),
            *(("--log", f"--log-prefix={directory}/log") if warm_up else ()),
            env={**os.environ, **_environment(url)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        lines = _logged(Path(directory))
    rate_line = re.search(rb"tps = ([0-9.]+)", output)
    if process.returncode != 0 or rate_line is None:
        said = output.decode(errors="replace").splitlines()
        why = [line for line in said if "error" in line.lower()] or said[-3:]
        raise BenchFailed(f"pgbench failed: {' / '.join(why)[:500]}")
    return _warm_rate(lines, warm_up) if warm_up else float(rate_line[1])


def _logged(directory: Path) -> list[str]:
    return [line for log in directory.glob("log.*") for line in log.read_text(encoding="utf-8").splitlines()]


def _warm_rate(lines: Sequence[str], warm_up: int) -> float:
    """Return the rate of a pgbench log from the moment when every client is warm until the first client has
    finished.
    """
    ends: dict[str, list[float]] = {}
    for line in lines:
        client, _number, _duration, _script, seconds, microseconds, *_ = line.split()
        ends.setdefault(client, []).append(int(seconds) + int(microseconds) / 1e6)
    begin = max(sorted(times)[warm_up - 1] for times in ends.values())
    end = min(max(times) for times in ends.values())
    counted = sum(begin < moment <= end for times in ends.values() for moment in times)
    if counted < len(ends):
        raise BenchFailed(f"only {counted} transactions of {len(lines)} ran while all clients were warm")
    return counted / (end - begin)


def _pgbench() -> Path:
    from onceward.db.embedded import BIN, EmbeddedError

    try:
        path = BIN.path("pgbench")
    except EmbeddedError as error:
        raise BenchFailed("pgbench comes with the embedded PostgreSQL, which is not installed") from error
    if not path.exists():
        raise BenchFailed(f"the embedded PostgreSQL has no pgbench at {path}")
    return path


def _environment(url: str) -> dict[str, str]:
    """Return a database URL as environment variables of libpq."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    given = {
        "PGHOST": query.get("host") or parts.hostname,
        "PGPORT": query.get("port") or (str(parts.port) if parts.port else None),
        "PGUSER": query.get("user") or (unquote(parts.username) if parts.username else None),
        "PGPASSWORD": query.get("password") or (unquote(parts.password) if parts.password else None),
        "PGDATABASE": query.get("dbname") or unquote(parts.path.lstrip("/")) or "postgres",
    }
    return {name: value for name, value in given.items() if value}
