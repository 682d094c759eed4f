"""Is the server of a data directory running, and where does it listen? Read from the file it writes itself.

The file outlives a killed server, and after a restart of the machine (or of a container, where process ids
are small and soon used again) its process id may belong to a stranger. So the process is looked at before
it is believed.
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
    """The running server of a cluster, or None."""
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
    """Whether this process is a live PostgreSQL working in this cluster; its working directory tells."""
    try:
        process = psutil.Process(pid)
        if "postgres" not in process.name() or process.status() == psutil.STATUS_ZOMBIE:
            return False
        if process.uids().effective != cluster.stat().st_uid:
            return False  # PostgreSQL refuses data that are not its user's own
        return os.path.realpath(process.cwd()) == str(cluster.resolve())
    except (psutil.NoSuchProcess, FileNotFoundError):
        return False
    except psutil.AccessDenied:
        return True  # the owner's postgres, and no way to look closer: rather wait than start a second one


def clear_stale(cluster: Path, *, timeout_s: float = 15.0) -> None:
    """Make way for a new server after a killed one. Only with the server lock held, only when `find` says None.

    The children of a killed server end by themselves within moments; as long as one lives, no other server may start.
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
        return  # PostgreSQL clears this case away itself
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
