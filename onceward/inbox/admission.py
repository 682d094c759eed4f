"""Limits on the requests of a source and of an organization: how many a second, and how many at the same time.

Every process counts for itself, in memory. Only verified requests are counted, so that forged ones cannot use up the
limit of the real sender; a request above a limit is refused before it is verified, which costs little.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from onceward.errors import OncewardError
from onceward.inbox.source import Source


class LimitName(StrEnum):
    """Which limit refused a request: the reason in the answer and in `onceward_webhook_rejected_total`."""

    SOURCE_RATE = "source_rate"
    SOURCE_AT_ONCE = "source_at_once"
    ORGANIZATION_RATE = "organization_rate"
    ORGANIZATION_AT_ONCE = "organization_at_once"
    SHARE = "share"
    """The source or its organization uses its share of the room for waiting requests. It needs no configuration."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """The most requests per second and at the same time. None: no limit."""

    per_s: float | None = None
    at_once: int | None = None

    def __bool__(self) -> bool:
        return self.per_s is not None or self.at_once is not None


class RequestLimited(OncewardError):
    """A limit on requests is reached. The sender should retry after `retry_after_s`."""

    def __init__(self, limit: LimitName, retry_after_s: int = 1) -> None:
        super().__init__(limit.value)
        self.limit = limit
        self.retry_after_s = retry_after_s


class Usage:
    """The running requests of a source or organization, and when its allowance of a second is full again."""

    __slots__ = ("_at_once", "_full_at", "_rate", "running")

    def __init__(self, rate: LimitName, at_once: LimitName) -> None:
        self._rate = rate
        self._at_once = at_once
        self._full_at = 0.0
        self.running = 0

    def check(self, limits: RequestLimits, now: float) -> None:
        """Raise RequestLimited if another request is above a limit."""
        if limits.at_once is not None and self.running >= limits.at_once:
            raise RequestLimited(self._at_once)
        if limits.per_s is not None:
            # The allowance is that of one second, and at least one request.
            wait_s = self._full_at - now - max(1.0, 1 / limits.per_s) + 1 / limits.per_s
            if wait_s > 1e-9:
                raise RequestLimited(self._rate, max(1, math.ceil(wait_s)))

    def enter(self, limits: RequestLimits, now: float) -> None:
        self.running += 1
        if limits.per_s is not None:
            self._full_at = max(self._full_at, now) + 1 / limits.per_s


class Admission:
    """Admits requests. A source without limits, of an organization without limits, costs nothing but `applies_to`."""

    def __init__(
        self, of_organization: RequestLimits | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._of_organization = of_organization or RequestLimits()
        self._limits_organizations = bool(self._of_organization)
        self._clock = clock
        self._sources: dict[UUID, Usage] = {}
        self._organizations: dict[UUID, Usage] = {}

    def applies_to(self, source: Source) -> bool:
        """Return whether a limit is set for the source or its organization."""
        return source.has_request_limits or (self._limits_organizations and source.organization is not None)

    def check(self, source: Source) -> None:
        """Raise RequestLimited if another request of the source is above a limit."""
        now = self._clock()
        for usage, limits in self._usages(source):
            usage.check(limits, now)

    def enter(self, source: Source) -> Sequence[Usage]:
        """Count a verified request, or raise RequestLimited. The caller gives the result to `leave` in the end."""
        self.check(source)
        now = self._clock()
        usages = self._usages(source)
        for usage, limits in usages:
            usage.enter(limits, now)
        return [usage for usage, _ in usages]

    def _usages(self, source: Source) -> list[tuple[Usage, RequestLimits]]:
        found: list[tuple[Usage, RequestLimits]] = []
        if source.has_request_limits:
            usage = self._sources.get(source.webhook_id)
            if usage is None:
                usage = self._sources[source.webhook_id] = Usage(LimitName.SOURCE_RATE, LimitName.SOURCE_AT_ONCE)
            found.append((usage, RequestLimits(source.requests_per_s, source.requests_at_once)))
        if self._limits_organizations and source.organization is not None:
            usage = self._organizations.get(source.organization)
            if usage is None:
                usage = Usage(LimitName.ORGANIZATION_RATE, LimitName.ORGANIZATION_AT_ONCE)
                self._organizations[source.organization] = usage
            found.append((usage, self._of_organization))
        return found


def leave(usages: Sequence[Usage]) -> None:
    """Count the end of a request."""
    for usage in usages:
        usage.running -= 1
