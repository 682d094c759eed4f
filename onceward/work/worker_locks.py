"""Prove that a worker process is dead, where all worker processes share a directory (the embedded server).

Each worker holds a kernel lock on a file of its own. The kernel releases the lock when the process ends, also by `kill
-9`, and never while it lives, however long it is stopped. So a lock that can be taken proves the death, and the work of
that worker can be released at once. A lock that is held, or a missing file, proves nothing: the heartbeat decides then.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path


class WorkerLocks:
    """The lock files of the workers, in one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._held: dict[int, int] = {}

    def hold(self, worker: int) -> None:
        """Take the lock of a worker of this process, before the worker registers. A second call changes nothing."""
        if worker in self._held:
            return
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Locked before it has its name: nobody may find the file without the lock.
        unnamed = self._directory / f"new-{worker}"
        file = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        unnamed.rename(self._path(worker))
        self._held[worker] = file

    def release(self, worker: int) -> None:
        """Delete the lock of a worker that has stopped and holds no work."""
        file = self._held.pop(worker, None)
        if file is not None:
            self.forget(worker)
            os.close(file)

    def is_dead(self, worker: int) -> bool:
        """Return whether the process of this worker has certainly ended."""
        try:
            file = os.open(self._path(worker), os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(file)
        return True

    def forget(self, worker: int) -> None:
        """Delete the file of a dead worker, after its work was released."""
        with contextlib.suppress(FileNotFoundError):
            self._path(worker).unlink()

    def _path(self, worker: int) -> Path:
        return self._directory / str(worker)
