"""Data of an older PostgreSQL are brought to the embedded version, and the old ones are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceward.db.embedded import BIN, EmbeddedError, EmbeddedPostgres, OtherVersion, StillBusy
from onceward.db.embedded.server import MAJOR
from onceward.db.embedded.upgrade import upgrade
from tests.db.conftest import started_server
from tests.db.test_embedded import data_dir
from tests.queries import fetch_value

__all__ = ["data_dir"]


@pytest.mark.peer
def test_data_of_postgresql_16_are_upgraded_and_kept(data_dir: Path) -> None:
    programs = BIN.path("initdb").parents[2] / "pginstall" / "bin"
    if not (programs / "initdb").exists():
        pytest.skip("the wheel of the embedded server has no PostgreSQL 16 on this platform")
    data_dir.mkdir()
    with started_server(programs, data_dir / "pg") as url:
        fetch_value(url, "create database onceward")
        fetch_value(url.replace("/postgres?", "/onceward?"), "create table kept as select 7 as n")
    with pytest.raises(OtherVersion, match="onceward db upgrade"):
        EmbeddedPostgres(data_dir, fsync=False).start()
    done = upgrade(data_dir, fsync=False)
    assert (done.before, done.after) == ("16", MAJOR)
    assert done.old_data is not None
    assert (done.old_data / "PG_VERSION").read_text().strip() == "16"
    server = EmbeddedPostgres(data_dir, fsync=False)
    try:
        assert fetch_value(server.start(), "select n from kept") == 7
        with pytest.raises(StillBusy, match="stop them first"):
            upgrade(data_dir, fsync=False)
    finally:
        server.stop()
    assert upgrade(data_dir, fsync=False).before is None
    assert sorted(path.name for path in data_dir.glob("pg*") if path.is_dir()) == ["pg", "pg.16"]


def test_missing_programs_of_the_old_version_are_named(data_dir: Path) -> None:
    (data_dir / "pg").mkdir(parents=True)
    (data_dir / "pg" / "PG_VERSION").write_text("11\n")
    with pytest.raises(EmbeddedError, match="apt install postgresql-11"):
        upgrade(data_dir, fsync=False)


def test_data_of_a_newer_version_are_refused(data_dir: Path) -> None:
    (data_dir / "pg").mkdir(parents=True)
    (data_dir / "pg" / "PG_VERSION").write_text("99\n")
    for attempt in (upgrade, lambda path: EmbeddedPostgres(path).start()):
        with pytest.raises(OtherVersion, match="written by PostgreSQL 99"):
            attempt(data_dir)
