"""The size of the database and the free space of its disk are known and reported before the disk is full."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from structlog.testing import capture_logs

from onceward.db import Database
from onceward.db.disk import GIB, Disk, disk_of, measure
from onceward.doctor.space import check_size
from onceward.process.disk import DiskWatch
from onceward.telemetry.metrics import REGISTRY


class Usage(NamedTuple):
    total: int
    used: int
    free: int


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The free space by the name of the directory; others have 100 GiB."""
    spaces: dict[str, int] = {}

    def usage(path: Any) -> Usage:
        left = spaces.get(Path(path).name, 100 * GIB)
        return Usage(200 * GIB, 200 * GIB - left, left)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    return spaces


async def test_the_watch_says_once_that_the_disk_becomes_full_and_that_it_recovered(
    db: Database, free: dict[str, int], tmp_path: Path
) -> None:
    watch = DiskWatch(db, tmp_path / "pg")
    with capture_logs() as logs:
        for left in (100, 1.5, 1.4, 0.2, 90):
            free["pg"] = round(left * GIB)
            size = await watch.step()
            assert REGISTRY.get_sample_value("onceward_disk_free_bytes") == free["pg"]
    events = [(each["event"], each["log_level"]) for each in logs]
    assert events == [("disk.low", "warning"), ("disk.low", "error"), ("disk.recovered", "info")]
    assert REGISTRY.get_sample_value("onceward_database_bytes") == size.bytes > 1_000_000
    assert len(size.tables) == 20
    for name, count in size.tables.items():
        assert REGISTRY.get_sample_value("onceward_table_bytes", {"table": name}) == count


async def test_the_fullest_disk_of_the_server_counts(free: dict[str, int], tmp_path: Path) -> None:
    free["pg_wal"] = 3 * GIB
    assert disk_of(tmp_path / "pg") == Disk(3 * GIB, 200 * GIB)


async def test_a_directory_of_another_machine_has_no_known_disk(tmp_path: Path) -> None:
    assert disk_of(tmp_path / "elsewhere") is None


async def test_a_login_that_may_not_know_the_directory_still_sees_the_sizes(db: Database) -> None:
    async with db.acquire() as conn, conn.transaction():
        assert (await measure(conn)).bytes > 1_000_000
        await conn.execute("set local role onceward_app")
        assert (await measure(conn)).disk is None


async def test_doctor_shows_the_size_and_fails_before_the_disk_is_full(
    db: Database, free: dict[str, int], tmp_path: Path
) -> None:
    async with db.acquire() as conn:
        assert (await check_size(conn, tmp_path / "pg")).status == "ok"
        free["pg"] = GIB // 10
        finding = await check_size(conn, tmp_path / "pg")
    assert finding.status == "fail"
    assert "0.1 GiB of 200.0 GiB free on the disk of the server" in finding.finding
