"""`bench`: measure this machine. Each case runs in turns with its baseline: another product or a physical limit.

The benchmarks are part of the repository: the wheel has neither them nor this module, so an installed package has no
such command.
"""

from __future__ import annotations

import os
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from onceward.cli.exits import CommandFailed
from onceward.cli.rendering import listing
from onceward.cli.session import run, spare_collector

REPOSITORY = Path(__file__).parents[2]


def register(cli: typer.Typer) -> None:
    cli.command("bench")(bench)


def bench(
    which: Annotated[
        str, typer.Argument(metavar="[BENCH]", help="A bench of `benchmarks/__init__.py`, or all.")
    ] = "all",
    case: Annotated[str | None, typer.Argument(metavar="[CASE]", help="Only this case.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Shorten the turns: one case takes less than a minute.")
    ] = False,
    smoke: Annotated[
        bool,
        typer.Option("--smoke", help="Run each case once with little data: checks that it works, measures nothing."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON line per measurement.")] = False,
) -> None:
    """Measure this machine, alternating each case with its baseline. Uses a temporary database."""
    from onceward.telemetry import configure_logging

    if str(REPOSITORY) not in sys.path:
        sys.path.insert(0, str(REPOSITORY))
    # The processes that a benchmark starts import the benchmarks too, whatever the current directory is.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(REPOSITORY), os.environ.get("PYTHONPATH"))))
    benches: tuple[str, ...] = import_module("benchmarks").BENCHES
    if which not in (*benches, "all"):
        raise CommandFailed(f"bench {which!r} does not exist; available: {', '.join(benches)}")
    chosen = benches if which == "all" else (which,)
    configure_logging(level="error", format="auto")
    Size = import_module("benchmarks.measure").Size
    size = Size.SMOKE if smoke else Size.QUICK if quick else Size.FULL
    measurements: list[Any] = []
    for name in chosen:
        for measurement in run(_measure(name, case, size)):
            measurements.append(measurement)
            if as_json:
                typer.echo(measurement.line())
    if case is not None and not measurements:
        raise CommandFailed(f"bench {which} has no case {case!r}")
    if not as_json:
        columns = ("bench", "case", "value", "unit", "baseline", "baseline_value", "ratio", "spread")
        rows = [{column: _shown(getattr(each, column)) for column in columns} for each in measurements]
        listing(rows, columns=columns, as_json=False, empty="nothing was measured")


async def _measure(name: str, case: str | None, size: Any) -> list[Any]:
    fresh = import_module("benchmarks.database").fresh
    module = import_module(f"benchmarks.{name}")
    spare_collector()  # as in the commands that run an app
    with tempfile.TemporaryDirectory(prefix="onceward-bench-", ignore_cleanup_errors=True) as directory:
        async with fresh(Path(directory) / "data") as url:
            return await module.run(size, url, only=case)


def _shown(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return f"{value:,.0f}" if value >= 1000 else f"{value:.2f}"
