"""The embedded server: one per directory, shared, and back after anything that can happen to it."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from onceward.db.embedded import EmbeddedPostgres, NoDiskSpace, NoPermission, NotStarted, OtherVersion
from onceward.db.embedded import server as server_module
from onceward.db.embedded.postmaster import find, serves
from tests.queries import fetch_value

USE_AND_WAIT = """
import sys, time
from pathlib import Path
from onceward.db.embedded import EmbeddedPostgres
server = EmbeddedPostgres(Path(sys.argv[1]), fsync=False)
print(server.start(), flush=True)
sys.stdin.readline()
server.stop()
"""


@pytest.fixture
def data_dir() -> Iterator[Path]:
    # Not tmp_path, whose names are long: the socket has a short path where it lies.
    path = Path(tempfile.mkdtemp(prefix="onceward-"))
    path.chmod(0o755)
    yield path / "data"
    running = find(path / "data" / "pg")
    if running is not None:
        os.kill(running.pid, signal.SIGQUIT)
        gone(running.pid)
    shutil.rmtree(path, ignore_errors=True)


def gone(pid: int, *, within_s: float = 10.0) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.02)
    return False


def another_user_of(data_dir: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", USE_AND_WAIT, str(data_dir)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("postgresql://")
    return process


def leave(process: subprocess.Popen[str]) -> None:
    process.communicate("\n", timeout=30)
    assert process.returncode == 0


def test_data_outlive_a_stop_and_the_last_user_stops_the_server(data_dir: Path) -> None:
    first = EmbeddedPostgres(data_dir, fsync=False)
    url = first.start()
    fetch_value(url, "create table kept as select 7 as n")
    other = another_user_of(data_dir)
    first.stop()
    assert first.running(), "another process still uses it"
    leave(other)
    assert not first.running()
    with EmbeddedPostgres(data_dir, fsync=False):
        assert fetch_value(url, "select n from kept") == 7


def test_server_survives_kill_9_of_the_process_that_started_it(data_dir: Path) -> None:
    starter = another_user_of(data_dir)
    running = find(data_dir / "pg")
    assert running is not None
    starter.kill()
    starter.communicate()
    server = EmbeddedPostgres(data_dir, fsync=False)
    server.start()
    after = find(data_dir / "pg")
    assert after is not None
    assert after.pid == running.pid
    server.stop()
    assert not server.running(), "the killed process does not count as a user any more"


def test_killed_server_starts_again_without_repair(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir)
    url = server.start()
    fetch_value(url, "create table kept as select 7 as n")
    running = find(data_dir / "pg")
    assert running is not None
    os.kill(running.pid, signal.SIGKILL)
    assert gone(running.pid)
    with EmbeddedPostgres(data_dir):
        assert fetch_value(url, "select n from kept") == 7
    server.stop()


def test_process_id_in_a_stale_file_that_now_belongs_to_a_stranger_is_noticed(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir, fsync=False):
        alive = (data_dir / "pg" / "postmaster.pid").read_text()
    (data_dir / "pg" / "postmaster.pid").write_text(f"{os.getpid()}\n" + alive.split("\n", 1)[1])
    assert find(data_dir / "pg") is None
    with EmbeddedPostgres(data_dir, fsync=False) as server:
        assert server.running()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to act as two users")
def test_another_users_server_that_cannot_be_looked_into_is_not_taken_for_ours(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.chown(tmp_path, 54321, 54321)

    def closed(_process: psutil.Process) -> str:
        raise psutil.AccessDenied

    with EmbeddedPostgres(data_dir, fsync=False):
        running = find(data_dir / "pg")
        assert running is not None
        monkeypatch.setattr(psutil.Process, "cwd", closed)
        assert serves(running.pid, data_dir / "pg")
        assert not serves(running.pid, tmp_path), "the directory of one user, the server of another"


def test_directory_too_deep_for_a_socket_gets_a_short_one(data_dir: Path) -> None:
    deep = data_dir / ("deep-" * 20)
    server = EmbeddedPostgres(deep, fsync=False)
    url = server.start()
    assert fetch_value(url, "select 1") == 1
    socket_dir = Path(url.split("host=")[1].split("&")[0])
    assert socket_dir.stat().st_mode & 0o077 == 0
    server.stop()
    assert not socket_dir.exists()


def test_interrupted_creation_is_thrown_away(data_dir: Path) -> None:
    (data_dir / "pg.new").mkdir(parents=True)
    (data_dir / "pg.new" / "PG_VERSION").write_text("18")
    with EmbeddedPostgres(data_dir, fsync=False) as server:
        assert server.running()
    assert not (data_dir / "pg.new").exists()


def test_own_configuration_lines_win(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir, fsync=False):
        pass
    with (data_dir / "pg" / "postgresql.conf").open("a") as conf:
        conf.write("work_mem = '23MB'\n")
    server = EmbeddedPostgres(data_dir, fsync=False)
    assert fetch_value(server.start(), "show work_mem") == "23MB"
    server.stop()


def test_commits_are_durable_by_default(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir)
    url = server.start()
    for name in ("fsync", "synchronous_commit", "full_page_writes"):
        assert fetch_value(url, f"show {name}") == "on"
    server.stop()


def test_data_of_another_version_are_refused_with_a_way_out(data_dir: Path) -> None:
    (data_dir / "pg").mkdir(parents=True)
    (data_dir / "pg" / "PG_VERSION").write_text("14\n")
    with pytest.raises(OtherVersion, match=r"written by PostgreSQL 14.*onceward db upgrade"):
        EmbeddedPostgres(data_dir).start()


def test_full_disk_is_reported_before_anything_is_written(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module.shutil, "disk_usage", lambda _path: SimpleNamespace(free=5 * 1024 * 1024))
    with pytest.raises(NoDiskSpace, match="5 MiB left"):
        EmbeddedPostgres(data_dir).start()
    assert not (data_dir / "pg").exists()


def test_servers_own_words_are_in_the_error(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir, fsync=False):
        pass
    with (data_dir / "pg" / "postgresql.conf").open("a") as conf:
        conf.write("no_such_setting = 1\n")
    with pytest.raises(NotStarted, match="no_such_setting"):
        EmbeddedPostgres(data_dir, fsync=False).start()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to act as two users")
def test_directory_of_another_user_is_refused_with_a_way_out(data_dir: Path) -> None:
    data_dir.mkdir()
    data_dir.chmod(0o700)
    nobody = pwd.getpwnam("nobody")
    pid = os.fork()
    if pid == 0:  # the interpreter may be out of the other user's reach, so it is this one that changes identity
        os.setgid(nobody.pw_gid)
        os.setuid(nobody.pw_uid)
        try:
            EmbeddedPostgres(data_dir).start()
        except NoPermission as error:
            os._exit(0 if "ONCEWARD_DATA_DIR" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
