"""Every case of `onceward bench` runs once, tiny. `make bench-smoke` runs them all; `make test` runs the quickest."""

from __future__ import annotations

from importlib import import_module

import pytest

from benchmarks.measure import Size
from onceward.cli.bench import BENCHES, available, cases

QUICKEST = {"checkout", "capacity", "messages"}
ALL = [pytest.param(bench, case, id=f"{bench}-{case}") for bench in BENCHES for case in cases(bench)]


async def run_once(bench: str, case: str, url: str) -> None:
    found = await import_module(f"benchmarks.{bench}").run(Size.SMOKE, url, only=case)
    assert found
    assert all(each.bench == bench and each.value >= 0 for each in found)


def test_every_bench_names_its_cases() -> None:
    assert available() == list(BENCHES)
    assert all(cases(bench) for bench in BENCHES)


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize(("bench", "case"), ALL)
async def test_every_case_runs(bench: str, case: str, database_url: str) -> None:
    await run_once(bench, case, database_url)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("bench", "case"), [each for each in ALL if each.values[0] in QUICKEST])
async def test_the_quickest_cases_run(bench: str, case: str, database_url: str) -> None:
    await run_once(bench, case, database_url)
