"""Start a process with fewer imports and fewer garbage collections.

Call these functions only in a process of our own, from a command: in the process of another application they would
change what its own libraries find.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from inspect import currentframe
from types import ModuleType

UNNEEDED = {"rich": "structlog", "colorama": "structlog", "pydantic.v1": "fastapi"}
"""Modules that a library imports if they are installed, and that library.

structlog colours tracebacks with them, which our log lines do not need. FastAPI asks whether a type is a model of
pydantic.v1: none is, unless another module has imported pydantic.v1, and then FastAPI finds it.
"""


class _Unneeded(MetaPathFinder):
    """Hides the unneeded modules from these libraries, as if they were not installed. All other modules find them."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        library = UNNEEDED.get(fullname)
        if library is not None and _importing_module().partition(".")[0] == library:
            raise ModuleNotFoundError(f"{fullname} is not needed by {library}", name=fullname)


def _importing_module() -> str:
    """Return the name of the module whose import statement runs."""
    frame = currentframe()
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name != __name__ and not name.startswith(("importlib", "_frozen_importlib")):
            return name
        frame = frame.f_back
    return ""


def hide_unneeded() -> None:
    """Let libraries be imported without modules that they do not need here and that take long to import."""
    if not any(isinstance(finder, _Unneeded) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Unneeded())


def import_fastapi() -> None:
    """Import FastAPI without building its models of an OpenAPI document: pydantic builds them at their first use."""
    from pydantic import BaseModel, ConfigDict

    before = BaseModel.model_config
    BaseModel.model_config = ConfigDict(defer_build=True)
    try:
        import_module("fastapi")
    finally:
        BaseModel.model_config = before


def slow_collector() -> None:
    """Let the garbage collector run rarely: during imports it finds nothing and takes a sixth of the time."""
    gc.set_threshold(100_000, 20, 20)


def pause_collector() -> None:
    """Switch the garbage collector off until the process is up: a collection takes 50 ms then and finds almost
    nothing."""
    gc.disable()


def process_age_s() -> float | None:
    """Return for how long this process has existed, interpreter and imports included. None if the system does not
    say."""
    try:
        with open("/proc/self/stat", encoding="ascii", errors="replace") as file:
            started = int(file.read().rpartition(")")[2].split()[19])  # field 22: ticks after the boot
    except OSError:
        return None
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf("SC_CLK_TCK")
