"""The inbox's maintenance: unhandled types, expired claims, paused and rate-limited sources, old bodies.

Any node may run any step. Several nodes may run the same step at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import structlog
from asyncpg import Record

from onceward.db import Connection, Database
from onceward.inbox import metrics, transmissions
from onceward.inbox.catalog import Catalog
from onceward.inbox.handlers import QUEUE, UNHANDLED_QUEUE
from onceward.statements import read_statement
from onceward.work import Loop, Stripping, Waker, Walk, in_batches

log = structlog.get_logger(__name__)

ROUTE = read_statement("inbox", "route_unhandled")
STRAYED = read_statement("inbox", "move_strayed")
GIVE_UP = read_statement("inbox", "finish_unhandled")
STRAY_PAUSED = read_statement("inbox", "park_strays")

WARN_ONCE = """
insert into onceward.unhandled_types (provider, type) values ($1, $2) on conflict do nothing returning 1
"""

TAKE_COUNTS = read_statement("inbox", "take_counts")
PACED = read_statement("inbox", "find_ready_rate_lane")
STRIP = read_statement("inbox", "strip_events")
PRUNE_LATER = read_statement("inbox", "strip_events_later")
FORGET = read_statement("inbox", "forget_events")

AT_ONCE = 1000
"""How many unhandled events a statement looks at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepOptions:
    """How long maintenance waits before it acts, and how long bodies and event ids are kept."""

    unhandled_after_s: float = 60.0
    sql_claim_expiry_s: int = 900
    keep: timedelta = timedelta(days=30)
    keep_keys: timedelta = timedelta(days=400)
    strip_pause_s: float = 1.0


class Upkeep:
    """A component that runs the steps below in loops. Tests call each step directly."""

    def __init__(self, db: Database, catalog: Catalog, waker: Waker, *, options: UpkeepOptions | None = None) -> None:
        self._db = db
        self._catalog = catalog
        self._waker = waker
        self._options = options or UpkeepOptions()
        self._strayed, self._stray_paused = Walk(), Walk()
        self._routed = self._given_up = 0
        """Ids of the last unhandled events that were examined. Zero: the next step begins with the first."""
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
        # Other languages claim through SQL, which releases expired claims too.
        await self._db.execute(
            "update onceward.sql_claim_expiry set seconds = $1 where seconds <> $1", self._options.sql_claim_expiry_s
        )
        for each in self._loops:
            await each.start()

    async def stop(self) -> None:
        for each in self._loops:
            await each.stop()

    def _woken(self, queue: str) -> None:
        if queue == UNHANDLED_QUEUE:
            self._routing.nudge()

    async def route(self) -> int:
        """Move unhandled events to the queue `events` if a live worker handles their type; return how many.

        Looks at the next events after those of the last call, and goes on for as long as it finds some to move.
        """
        moved = 0
        while True:
            row = await self._db.fetchrow(ROUTE, self._routed, AT_ONCE)
            assert row is not None
            self._routed = _position(row)
            moved += row["done"]
            if row["done"]:
                self._waker.wake(QUEUE)
            if not row["done"] or not self._routed:
                return moved

    async def give_up(self) -> int:
        """Mark events that had no handler for `unhandled_after_s` as done; return how many. Log each type once.

        Looks at the next events after those of the last call, and goes on for as long as it finds some to mark.
        """
        patience_s = self._options.unhandled_after_s
        given_up = 0
        async with self._db.acquire() as conn:
            window = await self._strayed.next(conn)
            await conn.fetch(STRAYED, patience_s, window.after, window.through)
            while True:
                row = await conn.fetchrow(GIVE_UP, patience_s, patience_s, self._given_up, AT_ONCE)
                assert row is not None
                self._given_up = _position(row)
                given_up += row["done"]
                for each in row["types"] or ():
                    await self._warn_once(conn, each["provider"], each["type"], each["source"])
                if not row["done"] or not self._given_up:
                    return given_up

    async def _warn_once(self, conn: Connection, provider: str, type: str, source: str | None) -> None:
        """Warn at the first event of a type. Other sources of the same provider may send the type too."""
        if await conn.fetchval(WARN_ONCE, provider, type):
            hint = f'write @app.on("{provider}", "{type}"), then `onceward events replay --type {type} --unhandled`'
            log.warning("event_type.unhandled", source=source, provider=provider, type=type, hint=hint)

    async def expire(self) -> int:
        """Release events that were claimed through SQL and never marked; return how many."""
        age = timedelta(seconds=self._options.sql_claim_expiry_s)
        return await self._db.fetchval("select webhook.release_expired($1)", age)

    async def park_strays(self) -> None:
        """Park events of paused sources that were committed while the source was being paused."""
        if any(source.paused for source in self._catalog.sources()):
            async with self._db.acquire() as conn:
                window = await self._stray_paused.next(conn)
                await conn.execute(STRAY_PAUSED, window.after, window.through)

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
            stripping = Stripping(
                db=self._db,
                statement=STRIP,
                arguments=(keep, days),
                at_once=at_once,
                pause_s=self._options.strip_pause_s,
            )
            looked += await stripping.all()
        await in_batches(partial(self._db.fetchval, PRUNE_LATER), at_once=at_once)
        await in_batches(partial(self._db.fetchval, FORGET, self._options.keep_keys), at_once=at_once)
        async with self._db.acquire() as conn:
            await transmissions.forget(conn, self._options.keep_keys)
        return looked


def _position(row: Record) -> int:
    """Return the id after which the next call continues: zero if this one saw the last event."""
    return row["last"] if row["seen"] == AT_ONCE else 0
