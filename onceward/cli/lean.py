"""Start a process with fewer imports and fewer garbage collections.

Call these functions only in a process of our own, from a command: in the process of another application they would change
what its own libraries find.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from inspect import currentframe
from types import ModuleType

COSMETIC = frozenset({"rich", "colorama"})
"""Libraries that structlog imports for coloured tracebacks if they are installed. Our log lines use neither."""


class _NotForStructlog(MetaPathFinder):
    """Hides the cosmetic libraries from structlog, as if they were not installed. All other modules find them."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if fullname in COSMETIC and _importing_module().partition(".")[0] == "structlog":
            raise ModuleNotFoundError(f"{fullname} is not needed by structlog", name=fullname)


def _importing_module() -> str:
    """Return the name of the module whose import statement runs."""
    frame = currentframe()
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name != __name__ and not name.startswith(("importlib", "_frozen_importlib")):
            return name
        frame = frame.f_back
    return ""


def spare_structlog() -> None:
    """Let structlog be imported without its cosmetic libraries, which take longer to import than structlog itself."""
    if not any(isinstance(finder, _NotForStructlog) for finder in sys.meta_path):
        sys.meta_path.insert(0, _NotForStructlog())


def slow_collector() -> None:
    """Let the garbage collector run rarely: during imports it finds nothing and takes a sixth of the time."""
    gc.set_threshold(100_000, 20, 20)


def process_age_s() -> float | None:
    """Return for how long this process has existed, interpreter and imports included. None if the system does not say."""
    try:
        with open("/proc/self/stat", encoding="ascii", errors="replace") as file:
            started = int(file.read().rpartition(")")[2].split()[19])  # field 22: ticks after the boot
    except OSError:
        return None
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf("SC_CLK_TCK")
