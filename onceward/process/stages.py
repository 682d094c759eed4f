"""How long each stage of a start took, for the log line of the start."""

from __future__ import annotations

import time


class Stages:
    """Measures stages one after the other. The first begins when the object is created."""

    def __init__(self, *, imports_s: float | None = None) -> None:
        """`imports_s` is what the process did before: the start of the interpreter and imports."""
        self.in_ms: dict[str, int] = {} if imports_s is None else {"imports": round(imports_s * 1000)}
        self._last = time.perf_counter()

    def end(self, stage: str) -> None:
        """Record the time since the last stage ended."""
        now = time.perf_counter()
        self.in_ms[stage] = round((now - self._last) * 1000)
        self._last = now

    @property
    def total_ms(self) -> int:
        return sum(self.in_ms.values())
