"""Adapt the global limit to the load: high CPU or memory use lowers it, unmet demand at low load raises it.

above 80 %            ──▶ the lowest level
above 60 %            ──▶ at most the middle level
below 40 % + demand   ──▶ one level up
otherwise             ──▶ unchanged: the gap between the thresholds keeps the limit from oscillating

Demand is a request that was refused, or work that waits for a slot, in the last two minutes. Other due work needs no
slot and does not count.
All nodes together change it at most once a minute. A lowered limit admits no new work until enough has ended; it stops
no running work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from math import isqrt

import structlog

from onceward.background import Loop
from onceward.db import Connection, Database
from onceward.limits.admission import GLOBAL
from onceward.statements import read_statement

log = structlog.get_logger(__name__)

EVERY_S = 10.0

CHANGE = read_statement("limits", "change_limit")
STATE = """
select at_most, wanted_at > clock_timestamp() - interval '2 minutes' as wanted from onceward.limits where name = $1
"""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The lowest and the highest value of the global limit."""

    least: int = 3
    most: int = 10

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.most <= 1000:
            raise ValueError(f"bounds must satisfy 1 <= least <= most <= 1000, not {self.least} and {self.most}")

    @property
    def levels(self) -> list[int]:
        """The values that the limit can have, in ascending order: the bounds and their geometric mean (3, 5 and 10)."""
        return [self.least, isqrt(self.least * self.most), self.most]


@dataclass(frozen=True, slots=True)
class Load:
    """The CPU and memory use of this machine in percent, and whether more slots were wanted than the limit allows."""

    cpu: float
    memory: float
    wanted: bool

    @property
    def highest(self) -> float:
        return max(self.cpu, self.memory)


def decide(current: int, load: Load, bounds: Bounds) -> int:
    """Return the limit for this load. A pure function, so that tests cover every threshold."""
    levels = bounds.levels
    current = min(max(current, bounds.least), bounds.most)
    if load.highest > 80:
        return levels[0]
    if load.highest > 60:
        return min(current, levels[1])
    if load.highest < 40 and load.wanted:
        return next((level for level in levels if level > current), levels[-1])
    return current


class AdaptiveLimit:
    """Measures the load every few seconds, smooths it, and updates `onceward.limits` at most once a minute."""

    def __init__(
        self, db: Database, *, bounds: Bounds | None = None, measure: Callable[[], tuple[float, float]] | None = None
    ) -> None:
        self._db = db
        self._bounds = bounds or Bounds()
        self._measure = measure or measure_machine
        self._cpu: float | None = None
        self._loop = Loop("adaptive limit", self.step, every_s=EVERY_S)

    async def start(self) -> None:
        await self._loop.start()

    async def stop(self) -> None:
        await self._loop.stop()

    async def step(self) -> int | None:
        """Measure once. Return the new limit, or None if it did not change."""
        cpu, memory = await asyncio.to_thread(self._measure)
        # Smoothed, so that a short peak does not lower the limit.
        self._cpu = cpu if self._cpu is None else self._cpu * 0.7 + cpu * 0.3
        async with self._db.acquire() as conn:
            return await self._change(conn, self._cpu, memory)

    async def _change(self, conn: Connection, cpu: float, memory: float) -> int | None:
        state = await conn.fetchrow(STATE, GLOBAL)
        if state is None:
            return None
        current: int = state["at_most"]
        load = Load(cpu, memory, state["wanted"])
        target = decide(current, load, self._bounds)
        if target == current:
            return None
        demand = "more slots wanted" if load.wanted else "no slots wanted"
        reason = f"cpu {load.cpu:.0f} %, memory {load.memory:.0f} %, {demand}"
        changed: int | None = await conn.fetchval(CHANGE, GLOBAL, target, current, reason)
        if changed is not None:
            log.info("limit.changed", limit=GLOBAL, before=current, after=changed, reason=reason)
        return changed


def measure_machine() -> tuple[float, float]:
    """Return the CPU use over half a second and the memory use, in percent."""
    import psutil  # only a worker measures

    return psutil.cpu_percent(interval=0.5), psutil.virtual_memory().percent
