"""Is this process alive, and is it ready for traffic? The second asks everything it depends on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

Check = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One dependency: `reason` is None when it is well."""

    name: str
    reason: str | None


class Health:
    """Named checks, each of which returns or raises; and the fact that a shutdown has begun."""

    def __init__(self, *, timeout_s: float = 2.0) -> None:
        self._checks: dict[str, Check] = {}
        self._timeout_s = timeout_s
        self.stopping = False

    def add(self, name: str, check: Check) -> None:
        self._checks[name] = check

    async def look(self) -> list[CheckResult]:
        """Ask all at once; a check that does not come back in time has failed."""
        return list(await asyncio.gather(*(self._ask(name, check) for name, check in self._checks.items())))

    async def _ask(self, name: str, check: Check) -> CheckResult:
        try:
            async with asyncio.timeout(self._timeout_s):
                await check()
        except TimeoutError:
            return CheckResult(name, f"no answer within {self._timeout_s:g} s")
        except Exception as error:  # whatever is wrong, the answer is "not ready", by kind: texts may hold addresses
            return CheckResult(name, type(error).__name__)
        return CheckResult(name, None)
