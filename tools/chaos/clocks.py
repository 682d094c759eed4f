"""Clocks of single processes that can be moved while they run. Debian's package `libfaketime` does it, where it is installed.

Only the time of day is moved. The monotonic clock stays, as it does when an administrator or NTP sets the time of a machine.
"""

from __future__ import annotations

from pathlib import Path


def find_library() -> Path | None:
    """Return the library that is loaded into a process in order to move its clock, or None."""
    return next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), None)


class Clock:
    """The clock of the processes that were started with `environ`. They look at its file whenever they need the time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.off_s = 0.0
        self._library = find_library()
        self.set(0.0)

    @property
    def movable(self) -> bool:
        return self._library is not None

    @property
    def environ(self) -> dict[str, str]:
        if self._library is None:
            return {}
        return {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self.path),
            "FAKETIME_NO_CACHE": "1",  # all processes of a server see the jump at the same moment
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def set(self, off_s: float) -> None:
        """Make the clock differ from the machine's clock by this many seconds."""
        self.off_s = off_s
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_suffix(".new")  # a process must not read half of a number
        new.write_text(f"{off_s:+.3f}\n")
        new.chmod(0o644)
        new.replace(self.path)
