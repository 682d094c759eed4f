"""The inbox's maintenance: unhandled types, expired claims, paused and rate-limited sources, old bodies.

Any node may run any step. Several nodes may run the same step at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import structlog

from onceward.db import Database
from onceward.inbox import metrics, transmissions
from onceward.inbox.catalog import Catalog
from onceward.inbox.handlers import QUEUE, UNHANDLED_QUEUE
from onceward.inbox.sources import park
from onceward.statements import read_statement
from onceward.work import Loop, Waker, in_batches

log = structlog.get_logger(__name__)

ROUTE = read_statement("inbox", "route_unhandled")
STRAYED = read_statement("inbox", "move_strayed")
GIVE_UP = read_statement("inbox", "finish_unhandled")

WARN_ONCE = """
insert into onceward.unhandled_types (provider, type) values ($1, $2) on conflict do nothing returning 1
"""

TAKE_COUNTS = read_statement("inbox", "take_counts")
PACED = read_statement("inbox", "find_ready_rate_lane")
PRUNE = read_statement("inbox", "strip_events")
PRUNE_LATER = read_statement("inbox", "strip_events_later")
FORGET = read_statement("inbox", "forget_events")


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepOptions:
    """How long maintenance waits before it acts, and how long bodies and event ids are kept."""

    unhandled_after_s: float = 60.0
    sql_claim_expiry_s: float = 900.0
    keep: timedelta = timedelta(days=30)
    keep_keys: timedelta = timedelta(days=400)


class Upkeep:
    """A component that runs the steps below in loops. Tests call each step directly."""

    def __init__(self, db: Database, catalog: Catalog, waker: Waker, *, options: UpkeepOptions | None = None) -> None:
        self._db = db
        self._catalog = catalog
        self._waker = waker
        self._options = options or UpkeepOptions()
        self._routing = Loop("unhandled", self.route, every_s=1.0)
        self._loops = [
            self._routing,
            Loop("unhandled given up", self.give_up, every_s=5.0),
            Loop("sql claims", self.expire, every_s=10.0),
            Loop("paused sources", self.park_strays, every_s=5.0),
            Loop("paced sources", self.pace, every_s=0.05),
            Loop("webhook counts", self.count, every_s=5.0),
            Loop("old events", self.prune, every_s=60.0),
        ]
        waker.listen(self._woken)

    async def start(self) -> None:
        for each in self._loops:
            await each.start()

    async def stop(self) -> None:
        for each in self._loops:
            await each.stop()

    def _woken(self, queue: str) -> None:
        if queue == UNHANDLED_QUEUE:
            self._routing.nudge()

    async def route(self) -> int:
        """Move unhandled events to the queue `events` if a live worker handles their type; return how many."""
        rows = await self._db.fetch(ROUTE)
        if rows:
            self._waker.wake(QUEUE)
        return len(rows)

    async def give_up(self) -> int:
        """Mark events that had no handler for `unhandled_after_s` as done; return how many. Log each type once."""
        patience_s = self._options.unhandled_after_s
        async with self._db.acquire() as conn:
            await conn.fetch(STRAYED, patience_s)
            rows = await conn.fetch(GIVE_UP, patience_s, patience_s)
            for row in rows:
                if await conn.fetchval(WARN_ONCE, row["provider"], row["type"]):
                    hint = f'write @app.on("{row["provider"]}", "{row["type"]}"), then `onceward events replay --type {row["type"]} --unhandled`'
                    log.warning("event_type.unhandled", provider=row["provider"], type=row["type"], hint=hint)
        return sum(row["count"] for row in rows)

    async def expire(self) -> int:
        """Release events that were claimed through SQL and never marked; return how many."""
        age = timedelta(seconds=self._options.sql_claim_expiry_s)
        return await self._db.fetchval("select webhook.release_expired($1)", age)

    async def park_strays(self) -> None:
        """Park events of paused sources that were committed while the source was being paused."""
        for source in self._catalog.sources():
            if source.paused:
                async with self._db.acquire() as conn:
                    await park(conn, source.webhook_id, source.mode, paused=True)

    async def pace(self) -> None:
        """Wake the workers when a rate-limited source may run its next event, instead of waiting for their next poll."""
        if self._catalog.paced and await self._db.fetchval(PACED):
            self._waker.wake(QUEUE)

    async def count(self) -> None:
        """Add what SQL clients and the command line did to the metrics of this node. Only one node counts each row."""
        for row in await self._db.fetch(TAKE_COUNTS):
            id, provider, label = str(row["webhook_id"]), row["provider"], row["label"]
            match row["metric"]:
                case "processing":
                    metrics.PROCESSED.labels(id, provider, label).inc(row["times"])
                case "dead_letter":
                    metrics.DEAD.labels(id, provider, label).inc(row["times"])
                case _:
                    # /metrics needs no credential and must not reveal the names that organizations give their keys.
                    operator = "key" if label.startswith("key:") else label
                    metrics.REPLAYED.labels(id, operator).inc(row["times"])

    async def prune(self, *, at_once: int = 1000) -> int:
        """Strip old bodies, then delete events past the duplicate period; return how many rows were examined."""
        looked = 0
        rows = await self._db.fetch(
            "select distinct retention_days from onceward.sources where retention_days is not null"
        )
        for days in (None, *(row["retention_days"] for row in rows)):
            keep = self._options.keep if days is None else timedelta(days=days)
            looked += await in_batches(partial(self._db.fetchval, PRUNE, keep, days), at_once=at_once)
        await in_batches(partial(self._db.fetchval, PRUNE_LATER), at_once=at_once)
        await in_batches(partial(self._db.fetchval, FORGET, self._options.keep_keys), at_once=at_once)
        async with self._db.acquire() as conn:
            await transmissions.forget(conn, self._options.keep_keys)
        return looked
