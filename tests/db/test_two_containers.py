"""One data volume in two containers: the second one is refused, whatever it can see of the first one's processes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from onceward.db.embedded import EmbeddedPostgres, InUseElsewhere, StillBusy, postmaster
from onceward.db.embedded.interlock import Home, hold_server_lock
from onceward.db.embedded.postmaster import clear_stale, find
from tests.db.test_embedded import USE_AND_WAIT, data_dir
from tests.queries import fetch_value

__all__ = ["data_dir"]

CONTAINER = ["unshare", "--pid", "--ipc", "--fork", "--kill-child", "--mount-proc"]
"""What matters of a container here: process ids and shared memory of its own."""


def _containers_work() -> bool:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    return subprocess.run([*CONTAINER, "true"], capture_output=True, check=False).returncode == 0


needs_containers = pytest.mark.skipif(not _containers_work(), reason="needs root and a kernel that allows `unshare`")


@pytest.fixture
def other_container(data_dir: Path) -> Iterator[subprocess.Popen[str]]:
    """A process in another container that uses the server of the same directory."""
    command = [*CONTAINER, sys.executable, "-c", USE_AND_WAIT, str(data_dir)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("postgresql://")
        yield process
    finally:
        process.kill()
        process.communicate()


@needs_containers
def test_the_second_container_is_refused_until_the_server_of_the_first_has_ended(
    data_dir: Path, other_container: subprocess.Popen[str]
) -> None:
    interlock = data_dir / "pg" / "postmaster.pid"
    text = interlock.read_text()
    with pytest.raises(InUseElsewhere, match="ONCEWARD_DATA_DIR"):
        EmbeddedPostgres(data_dir, fsync=False).start()
    interlock.write_text(f"{os.getpid()}\n" + text.split("\n", 1)[1])
    with pytest.raises(InUseElsewhere):  # the id of the other server belongs to a stranger here
        EmbeddedPostgres(data_dir, fsync=False).start()
    assert interlock.exists(), "the first server's own interlock is still there"
    interlock.write_text(text)
    (data_dir / "pg.users").rename(data_dir / "pg.users.hidden")
    with pytest.raises(InUseElsewhere):  # no user is left, as after `kill -9`, but their server is
        EmbeddedPostgres(data_dir, fsync=False).start()
    (data_dir / "pg.users.hidden").replace(data_dir / "pg.users")
    other_container.communicate("\n", timeout=30)
    server = EmbeddedPostgres(data_dir, fsync=False)
    assert fetch_value(server.start(), "select 1") == 1
    server.stop()


def test_a_record_of_an_earlier_boot_does_not_prevent_a_start(data_dir: Path) -> None:
    with EmbeddedPostgres(data_dir, fsync=False):
        pass
    record = (data_dir / "pg.server").read_text()
    (data_dir / "pg.server").write_text(record.replace(Home.here().boot_id[:8] or "{", "00000000", 1))
    with EmbeddedPostgres(data_dir, fsync=False) as server:
        assert server.running()


def test_no_server_starts_while_processes_of_a_killed_one_survive(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = EmbeddedPostgres(data_dir, fsync=False)
    server.start()
    running = find(data_dir / "pg")
    assert running is not None
    os.kill(running.pid, signal.SIGSTOP)  # alive, and unable to end
    try:
        monkeypatch.setattr(postmaster, "find", lambda _cluster: None)
        with pytest.raises(StillBusy, match=str(running.pid)):
            clear_stale(data_dir / "pg", timeout_s=0.2)
        lock = os.open(data_dir / "pg.server", os.O_RDWR)
        with pytest.raises(StillBusy, match="fuser"):
            hold_server_lock(lock, data_dir, timeout_s=0.2)
        os.close(lock)
    finally:
        os.kill(running.pid, signal.SIGCONT)
        server.stop()
    deadline = time.monotonic() + 10
    while server.running() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not server.running()
