"""Health of the process: whether it is ready for traffic, which depends on checks of its dependencies."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from onceward.errors import OncewardError


class Unhealthy(OncewardError):
    """The reason why a check fails, for everybody who may call `/readyz`: it contains no address and no secret."""


Check = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The state of one dependency. `reason` is None if the dependency is available."""

    name: str
    reason: str | None


class Health:
    """Named checks, and whether a shutdown has started. A check raises an exception to report a failure."""

    def __init__(self, *, timeout_s: float = 2.0) -> None:
        self._checks: dict[str, Check] = {}
        self._timeout_s = timeout_s
        self.stopping = False

    def add(self, name: str, check: Check) -> None:
        self._checks[name] = check

    async def look(self) -> list[CheckResult]:
        """Run all checks at the same time. A check that exceeds the timeout has failed."""
        return list(await asyncio.gather(*(self._ask(name, check) for name, check in self._checks.items())))

    async def _ask(self, name: str, check: Check) -> CheckResult:
        try:
            async with asyncio.timeout(self._timeout_s):
                await check()
        except TimeoutError:
            return CheckResult(name, f"no answer within {self._timeout_s:g} s")
        except Unhealthy as error:
            return CheckResult(name, str(error))
        except Exception as error:  # only the class name is reported: the message may contain addresses
            return CheckResult(name, type(error).__name__)
        return CheckResult(name, None)
