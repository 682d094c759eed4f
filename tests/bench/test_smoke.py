"""Every case of `onceward bench` runs once, tiny. `make bench-smoke` runs them all; `make test` runs the quickest."""

from __future__ import annotations

from importlib import import_module

import pytest

from benchmarks import BENCHES, coursegen
from benchmarks.measure import BenchFailed, Size

QUICKEST = {"checkout", "capacity", "messages"}
CASES = {bench: tuple[str, ...](import_module(f"benchmarks.{bench}").CASES) for bench in BENCHES}
ALL = [pytest.param(bench, case, id=f"{bench}-{case}") for bench in BENCHES for case in CASES[bench]]


async def run_once(bench: str, case: str, url: str) -> None:
    found = await import_module(f"benchmarks.{bench}").run(Size.SMOKE, url, only=case)
    assert found
    assert all(each.bench == bench and each.value >= 0 for each in found)


def test_every_bench_names_its_cases() -> None:
    assert all(CASES.values()), CASES


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize(("bench", "case"), ALL)
async def test_every_case_runs(bench: str, case: str, database_url: str) -> None:
    await run_once(bench, case, database_url)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("bench", "case"), [each for each in ALL if each.values[0] in QUICKEST])
async def test_the_quickest_cases_run(bench: str, case: str, database_url: str) -> None:
    await run_once(bench, case, database_url)


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_the_language_model_notices_a_limit_that_is_exceeded_by_one(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proof that the case `contended` can fail."""

    async def one_too_many(school: coursegen.School, limit: int) -> None:
        school.model.limit = limit
        await school.set_limit(limit + 1)

    monkeypatch.setattr(coursegen, "raise_limit", one_too_many)
    with pytest.raises(BenchFailed, match="served at once, by limit"):
        await coursegen.run(Size.SMOKE, database_url, only="contended")
