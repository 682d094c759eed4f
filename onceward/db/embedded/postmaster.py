"""Find the running server of a data directory and its socket, from the file `postmaster.pid` that PostgreSQL writes.

The file survives a killed server. After a restart of the machine or container, its process id may belong to another
program. So the process itself is checked too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from onceward.db.embedded.configuration import PORT
from onceward.db.embedded.errors import StillBusy


@dataclass(frozen=True, slots=True)
class Postmaster:
    """A running server."""

    pid: int
    socket_dir: str
    ready: bool


def find(cluster: Path) -> Postmaster | None:
    """Return the running server of a cluster, or None."""
    lines = _read(cluster)
    if not lines or not lines[0].strip().isdigit():
        return None
    pid = int(lines[0])
    if not serves(pid, cluster):
        return None
    socket_dir = lines[4].strip() if len(lines) > 4 else ""
    ready = len(lines) > 7 and lines[7].strip() == "ready"
    return Postmaster(pid, socket_dir, ready)


def serves(pid: int, cluster: Path) -> bool:
    """Return whether this process is a running PostgreSQL of this cluster, judged by its working directory."""
    try:
        process = psutil.Process(pid)
        if "postgres" not in process.name() or process.status() == psutil.STATUS_ZOMBIE:
            return False
        if process.uids().effective != cluster.stat().st_uid:
            return False  # PostgreSQL refuses data that another user owns
        return os.path.realpath(process.cwd()) == str(cluster.resolve())
    except (psutil.NoSuchProcess, FileNotFoundError):
        return False
    except psutil.AccessDenied:
        return True  # a postgres of the owner that cannot be inspected: wait rather than start a second server


def clear_stale(cluster: Path, *, timeout_s: float = 15.0) -> None:
    """Remove the files of a killed server. Call it with the server lock held, when `find` returns None.

    The child processes of a killed server end soon. No other server may start while one of them lives.
    """
    deadline = time.monotonic() + timeout_s
    while survivors := list(_survivors(cluster)):
        if time.monotonic() > deadline:
            raise StillBusy(
                f"processes {', '.join(map(str, survivors))} of an earlier server still work in {cluster} after "
                f"{timeout_s:.0f} s: end them, then start again"
            )
        time.sleep(0.05)
    lines = _read(cluster)
    if not lines or not lines[0].strip().isdigit() or not psutil.pid_exists(int(lines[0])):
        return  # PostgreSQL handles this case itself
    (cluster / "postmaster.pid").unlink(missing_ok=True)
    if len(lines) > 4 and lines[4].strip():
        (Path(lines[4].strip()) / f".s.PGSQL.{PORT}.lock").unlink(missing_ok=True)


def _survivors(cluster: Path) -> Iterator[int]:
    for process in psutil.process_iter(["name"]):
        if process.info["name"] == "postgres" and serves(process.pid, cluster):
            yield process.pid


def _read(cluster: Path) -> list[str]:
    try:
        return (cluster / "postmaster.pid").read_text().splitlines()
    except (FileNotFoundError, PermissionError):
        return []
