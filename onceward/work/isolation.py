"""What a job declares with `process=True`: where its function is found, and what its process may use."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Isolation:
    """A function that runs in a process of its own, found there by its module and qualified name."""

    module: str
    qualname: str
    memory_mb: int | None = None
    """How much address space the function may take in addition to what its process has when it starts."""
    cpu_s: float | None = None
    """How much CPU time one attempt may use."""


def isolate(function: Callable[..., Any], name: str, *, memory_mb: int | None, cpu_s: float | None) -> Isolation:
    """Return the isolation of a job's function. Raise an error if another process could not find the function."""
    if memory_mb is not None and memory_mb < 1:
        raise ValueError(f"{name}: memory_mb must be at least 1, not {memory_mb}")
    if cpu_s is not None and cpu_s <= 0:
        raise ValueError(f"{name}: cpu_s must be more than 0 seconds, not {cpu_s}")
    module, qualname = function.__module__, function.__qualname__
    if "<" in qualname:
        raise TypeError(
            f"{name}: process=True needs a function at the top level of a module, and {qualname} is defined inside a "
            "function; the process of the job imports it by its name"
        )
    if module == "__main__":
        spec = getattr(sys.modules[module], "__spec__", None)
        if spec is None:
            raise TypeError(
                f"{name}: process=True needs a function in a module that can be imported, and {qualname} is defined in "
                "the script that was started; move the function to a module of its own"
            )
        module = spec.name
    return Isolation(module, qualname, memory_mb, cpu_s)
