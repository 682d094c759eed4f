"""The peers' adapters: what they print is read, what is not installed is left out, what fails says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.measure import BenchFailed
from benchmarks.peer import NODE, PYTHON, installed, peer, read_peer

ADAPTERS = Path(__file__).parents[2] / "benchmarks" / "peers"


def pretend(place: Path, program: str) -> None:
    """A peer whose interpreter is a shell script."""
    python = place / "pgqueuer" / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\n{program}\n", encoding="utf-8")
    python.chmod(0o755)
    (place / "pgqueuer" / ".ready").touch()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ONCEWARD_TEST_BENCH_DIR", str(tmp_path))
    return tmp_path


def test_every_peer_has_an_adapter() -> None:
    assert [name for name in PYTHON if not (ADAPTERS / f"{name}.py").exists()] == []
    assert [name for name in NODE if not (ADAPTERS / f"{name}.mjs").exists()] == []


@pytest.mark.usefixtures("place")
async def test_a_peer_that_is_not_installed_is_left_out() -> None:
    assert installed() == []
    assert await peer("pgqueuer", "bulk", url="postgresql://", count=1) is None


async def test_the_last_line_an_adapter_prints_is_its_measurement(place: Path) -> None:
    pretend(place, """echo hello; echo '{"value": 12.5, "unit": "ms", "p99": 40}'""")
    assert installed() == ["pgqueuer"]
    reading = await read_peer("pgqueuer", "latency", url="postgresql://", count=1)
    assert reading is not None
    assert (reading.value, reading.unit, reading.p99) == (12.5, "ms", 40)


async def test_a_peer_that_fails_is_named_with_its_output(place: Path) -> None:
    pretend(place, "echo 'no such host' >&2; exit 1")
    with pytest.raises(BenchFailed, match="pgqueuer bulk failed: no such host"):
        await peer("pgqueuer", "bulk", url="postgresql://", count=1)


async def test_a_peer_that_measures_nothing_is_not_taken_for_zero(place: Path) -> None:
    pretend(place, "echo done")
    with pytest.raises(BenchFailed, match="printed no measurement"):
        await peer("pgqueuer", "bulk", url="postgresql://", count=1)


async def test_a_peer_nobody_knows_is_refused() -> None:
    with pytest.raises(BenchFailed, match="there is no peer 'celery'"):
        await peer("celery", "bulk", url="postgresql://", count=1)


@pytest.mark.peer
@pytest.mark.parametrize("name", [*PYTHON, *NODE])
async def test_an_installed_peer_does_its_work_and_is_timed(name: str, database_url: str) -> None:
    if name not in installed():
        pytest.skip(f"{name} is not installed: make bench-peers")
    case = "workflows" if name == "dbos" else "drain"
    value = await peer(name, case, url=database_url, count=40)
    assert value is not None
    assert value > 0
