"""Data of an older PostgreSQL are brought to the embedded version, and the old ones are kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from onceward.db.embedded import BIN, EmbeddedError, EmbeddedPostgres, OtherVersion, StillBusy
from onceward.db.embedded.data_switch import NOTE, Switch
from onceward.db.embedded.server import MAJOR
from onceward.db.embedded.upgrade import LOGS, Upgraded, _run_pg_upgrade, upgrade
from tests.db.conftest import started_server
from tests.db.test_embedded import data_dir
from tests.queries import fetch_value

__all__ = ["data_dir"]


KILLED_BETWEEN_THE_RENAMES = """
import os, signal, sys
from pathlib import Path
from onceward.db.embedded.upgrade import upgrade
rename = Path.rename

def killed(path, target):
    if path.name == "pg.new":
        os.kill(os.getpid(), signal.SIGKILL)
    return rename(path, target)

Path.rename = killed
upgrade(Path(sys.argv[1]), fsync=False)
"""


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
    killed = subprocess.run([sys.executable, "-c", KILLED_BETWEEN_THE_RENAMES, str(data_dir)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not (data_dir / "pg").exists()
    server = EmbeddedPostgres(data_dir, fsync=False)
    try:
        assert fetch_value(server.start(), "select n from kept") == 7
        assert (data_dir / "pg.16" / "PG_VERSION").read_text().strip() == "16"
        with pytest.raises(StillBusy, match="stop them first"):
            upgrade(data_dir, fsync=False)
    finally:
        server.stop()
    assert upgrade(data_dir, fsync=False) == Upgraded(None, MAJOR, None)
    assert sorted(path.name for path in data_dir.glob("pg*") if path.is_dir()) == ["pg", "pg.16"]


def test_a_failed_upgrade_names_a_log_that_exists(data_dir: Path) -> None:
    cluster, fresh = data_dir / "pg", data_dir / "pg.new"
    for path in (cluster, fresh):
        path.mkdir(parents=True)
        (path / "PG_VERSION").write_text("16\n")
    (fresh / LOGS).mkdir()
    (fresh / LOGS / "tables.txt").write_text("the reason")
    with EmbeddedPostgres(data_dir).exclusive() as held:
        with pytest.raises(EmbeddedError, match="the old data are unchanged") as failed:
            _run_pg_upgrade(held, BIN.path("initdb").parent, cluster, fresh, fsync=False)
    logs = Path(str(failed.value).rpartition("(whole log: ")[2].rstrip(")"))
    assert (logs / "output.txt").read_text()
    assert (logs / LOGS / "tables.txt").read_text() == "the reason"


class Killed(BaseException):
    """Ends a command as `kill -9` does: nothing is cleaned up."""


def test_an_upgrade_that_is_killed_at_any_step_leaves_the_old_or_the_new_data(data_dir: Path, monkeypatch) -> None:
    """Every operation on files is the last one in turn."""
    finished = []
    for last in range(1, 20):
        room = data_dir / str(last)
        (room / "pg").mkdir(parents=True)
        (room / "pg" / "PG_VERSION").write_text("16\n")
        left = [last]

        def counted(original, left=left):
            def operation(*args, **options):
                left[0] -= 1
                if left[0] < 0:
                    raise Killed
                return original(*args, **options)

            return operation

        with monkeypatch.context() as patched:
            for owner, name in ((Path, "rename"), (Path, "replace"), (Path, "unlink"), (Path, "mkdir"), (os, "fsync")):
                patched.setattr(owner, name, counted(getattr(owner, name)))
            try:
                switch = Switch(room, room / "pg", room / "pg.new", room / "pg.16")
                switch.begin()
                (room / "pg.new").mkdir()
                (room / "pg.new" / "PG_VERSION").write_text("18\n")
                switch.switch()
            except Killed:
                pass
        Switch.resume(room)
        version = (room / "pg" / "PG_VERSION").read_text().strip()
        directories = sorted(path.name for path in room.iterdir() if path.is_dir())
        assert directories == (["pg", "pg.16"] if version == "18" else ["pg"])
        assert not (room / NOTE).exists()
        if left[0] >= 0:
            break
        finished.append(version)
    assert (finished[0], finished[-1]) == ("16", "18")
    assert finished == sorted(finished)


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
