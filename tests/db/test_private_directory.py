"""As root, in directories that no other account may enter: the home of root, any `mktemp -d`."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from structlog.testing import capture_logs

from onceward.db.embedded import BIN, EmbeddedPostgres, NoPermission, namespace, placement
from onceward.db.embedded import server as server_module
from onceward.db.embedded.account import SystemAccount
from onceward.db.embedded.namespace import Namespace
from onceward.db.embedded.postmaster import find
from tests.queries import fetch_value

PUBLIC = "/var/tmp"  # the temporary directory of a test run may be private itself

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has to change its user")

needs_namespaces = pytest.mark.skipif(
    not Namespace(0, 0, 1, 1).works(Path("/bin/true")), reason="user namespaces are not allowed on this machine"
)


@pytest.fixture
def private() -> Iterator[Path]:
    """A directory of mode 700 that belongs to root."""
    path = Path(tempfile.mkdtemp(prefix="onceward-private-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def private_programs(private: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The server's programs inside the private directory, as in a clone below /root."""
    install = BIN.path("postgres").parent.parent
    copied = private / "site-packages" / install.parent.name / install.name
    shutil.copytree(install, copied)
    libraries = install.parent.with_name(install.parent.name + ".libs")
    if libraries.is_dir():
        shutil.copytree(libraries, private / "site-packages" / libraries.name)
    monkeypatch.setattr(server_module, "find_binaries", lambda: copied / "bin")
    return copied / "bin"


@pytest.fixture
def no_namespaces(private: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """As in a container whose seccomp profile forbids user namespaces; yields where things are placed instead."""
    room = Path(tempfile.mkdtemp(prefix="onceward-room-", dir=PUBLIC))
    room.chmod(0o755)
    monkeypatch.setattr(namespace, "_works", lambda *_: False)
    monkeypatch.setattr(placement, "ROOMS", (room,))
    yield room
    shutil.rmtree(room, ignore_errors=True)


@needs_namespaces
def test_programs_and_data_below_a_private_directory_are_used_where_they_are(
    private: Path, private_programs: Path
) -> None:
    server = EmbeddedPostgres(private / "data", fsync=False)
    url = server.start()
    try:
        fetch_value(url, "create table kept as select 7 as n")
        running = find(private / "data" / "pg")
        assert running is not None
        process = psutil.Process(running.pid)
        assert Path(process.exe()).is_relative_to(private_programs)
        assert process.uids().effective == 0, "root's own files, under another name inside the namespace"
        status = Path(f"/proc/{running.pid}/status").read_text()
        assert "CapEff:\t0000000000000000" in status, "the server has no rights beyond those of a file owner"
    finally:
        server.stop()
    with EmbeddedPostgres(private / "data", fsync=False):
        assert fetch_value(url, "select n from kept") == 7
    assert private.stat().st_mode & 0o777 == 0o700, "nothing was opened to the world"


def test_without_namespaces_programs_and_data_are_placed_where_the_account_can_reach_them(
    private: Path, private_programs: Path, no_namespaces: Path
) -> None:
    server = EmbeddedPostgres(private / "data", fsync=False)
    with capture_logs() as lines:
        url = server.start()
    try:
        assert [line["event"] for line in lines] == ["embedded.programs_copied", "embedded.data_placed_elsewhere"]
        assert str(private) in lines[1]["reason"]
        assert (private / "data" / "pg").resolve().is_relative_to(no_namespaces)
        fetch_value(url, "create table kept as select 7 as n")
    finally:
        server.stop()
    with capture_logs() as lines, EmbeddedPostgres(private / "data", fsync=False):
        assert fetch_value(url, "select n from kept") == 7
    assert lines == [], "what was placed once is found again"


@needs_namespaces
def test_data_that_were_moved_into_a_private_directory_stay_usable(private: Path) -> None:
    account = SystemAccount.choose(private, BIN.path("postgres").parent)
    nobody = 65534
    with EmbeddedPostgres(private / "data", fsync=False) as server:
        fetch_value(server._url(str(private / "data" / "pg")), "create table kept as select 7 as n")
    SystemAccount(account.bin_dir, nobody, nobody).own_tree(private / "data" / "pg")
    server = EmbeddedPostgres(private / "data", fsync=False)
    try:
        assert fetch_value(server.start(), "select n from kept") == 7
    finally:
        server.stop()


def test_existing_data_that_no_account_can_reach_are_refused_with_a_way_out(private: Path, no_namespaces: Path) -> None:
    (private / "data" / "pg").mkdir(parents=True)
    with pytest.raises(NoPermission, match=r"may not enter .*data.*ONCEWARD_DATA_DIR"):
        EmbeddedPostgres(private / "data").start()


@needs_namespaces
def test_a_directory_whose_owner_has_no_account_here_is_used_as_its_owner() -> None:
    """A project directory that is mounted into a container belongs to a user id that only the host knows."""
    directory = Path(tempfile.mkdtemp(prefix="onceward-", dir=PUBLIC))
    try:
        os.chown(directory, 54321, 54321)
        server = EmbeddedPostgres(directory / "data", fsync=False)
        try:
            assert fetch_value(server.start(), "select 1") == 1
            assert (directory / "data" / "pg").stat().st_uid == 54321
        finally:
            server.stop()
    finally:
        shutil.rmtree(directory)
