"""Prevent two servers on one data directory, even if they run in two containers.

PostgreSQL's own interlock is a process id and a shared memory segment. Neither is visible from another container that
mounts the same volume. So the server inherits a locked file (`pg.server`), and all its processes keep the file open:
the kernel releases the lock when the last of them has ended, in any container. The file names the boot and the process
namespace in which the server was started.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from onceward.db.embedded.errors import InUseElsewhere, StillBusy


@dataclass(frozen=True, slots=True)
class Home:
    """Where a server was started. Process ids are valid only inside the same boot and process namespace."""

    boot_id: str
    pid_namespace: str
    host: str

    @classmethod
    def here(cls) -> Home:
        try:
            boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
            pid_namespace = os.readlink("/proc/self/ns/pid")
        except OSError:  # not Linux: process ids belong to the whole machine
            boot_id = pid_namespace = ""
        return cls(boot_id, pid_namespace, socket.gethostname())

    def is_here(self) -> bool:
        here = Home.here()
        return (self.boot_id, self.pid_namespace) == (here.boot_id, here.pid_namespace)

    def __str__(self) -> str:
        return f"host {self.host!r}, boot {self.boot_id[:8] or '-'}, process namespace {self.pid_namespace or '-'}"


def read_home(lock: int) -> Home | None:
    """Return where the server was last started, or None if the record is missing or unreadable."""
    try:
        fields = json.loads(os.pread(lock, 4096, 0) or b"null")
        return None if fields is None else Home(**fields)
    except (ValueError, TypeError):
        return None


def write_home(lock: int) -> None:
    os.ftruncate(lock, 0)
    os.pwrite(lock, json.dumps(asdict(Home.here())).encode(), 0)


def require_no_users_elsewhere(server_lock: int, users_lock: int, data_dir: Path) -> None:
    """Raise if processes of another container or machine use the data, even while their server is down."""
    home = read_home(server_lock)
    if home is None or home.is_here():
        return
    try:
        fcntl.flock(users_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _elsewhere(data_dir, home) from None
    fcntl.flock(users_lock, fcntl.LOCK_UN)


def hold_server_lock(lock: int, data_dir: Path, *, timeout_s: float = 15.0) -> None:
    """Take the lock that a running server holds. Wait, because the processes of a killed server need time to end."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            home = read_home(lock)
            if home is not None and not home.is_here():
                raise _elsewhere(data_dir, home) from None
            if time.monotonic() > deadline:
                raise StillBusy(
                    f"processes of an earlier server still hold {data_dir / 'pg.server'} after {timeout_s:.0f} s: find "
                    f"them with `fuser {data_dir / 'pg.server'}` and end them"
                ) from None
            time.sleep(0.02)


def _elsewhere(data_dir: Path, home: Home) -> InUseElsewhere:
    return InUseElsewhere(
        f"{data_dir} is used by a server that was started elsewhere ({home}): stop it there, give this process its "
        "own data directory (ONCEWARD_DATA_DIR), or let both use one server (ONCEWARD_DATABASE_URL)"
    )
