"""The inbox's maintenance: unhandled types, expired claims, paused and rate-limited sources, old bodies.

Any node may run any step. Several nodes may run the same step at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import structlog
from asyncpg import Record

from onceward.background import Loop
from onceward.db import Connection, Database
from onceward.inbox import metrics, transmissions
from onceward.inbox.catalog import Catalog
from onceward.inbox.handlers import QUEUE, UNHANDLED_QUEUE
from onceward.statements import read_statement
from onceward.work import TURNS, Retention, Waker, Walk
from onceward.work.unserved import PATIENCE, note

log = structlog.get_logger(__name__)

VISIT = read_statement("inbox", "visit_unhandled")
GROUP_PAUSED = read_statement("inbox", "group_paused_events")

WARN_ONCE = """
insert into onceward.unhandled_types (provider, type) values ($1, $2) on conflict do nothing returning 1
"""

TAKE_COUNTS = read_statement("inbox", "take_counts")
PACED = read_statement("inbox", "find_ready_rate_lane")
STRIP = read_statement("inbox", "strip_events")
FORGET = read_statement("inbox", "forget_events")

AT_ONCE = 1000
"""How many unhandled events a statement looks at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepOptions:
    """How long maintenance waits before it acts, and how long bodies and event ids are kept."""

    unhandled_after_s: float = 60.0
    sql_claim_expiry_s: int = 900
    keep: timedelta = timedelta(days=30)
    keep_keys: timedelta | None = None
    """None: for ever. An event id that was deleted no longer stops a duplicate."""
    strip_pause_s: float = 1.0


def old_bodies(db: Database, options: UpkeepOptions, *, days: int | None, at_once: int = AT_ONCE) -> Retention:
    """Return the retention of the bodies of sources that keep them for this many days.

    None: for as long as the setting says.
    """
    return Retention(
        db=db,
        name=f"events:{'default' if days is None else days}",
        table="onceward.webhook_events",
        prune=STRIP,
        keep=options.keep if days is None else timedelta(days=days),
        id="seq",
        at="received_at",
        only="(r.webhook_id in (select s.webhook_id from onceward.sources s where s.retention_days"
        + (" is not null)) is not true" if days is None else f" = {days:d}))"),
        later="events",
        turns=TURNS,
        at_once=at_once,
        pause_s=options.strip_pause_s,
    )


def old_event_ids(db: Database, keep: timedelta, *, at_once: int = AT_ONCE) -> Retention:
    """Return the retention of whole events: they are deleted when duplicates need not be detected any more."""
    return Retention(
        db=db,
        name="event keys",
        table="onceward.webhook_events",
        prune=FORGET,
        keep=keep,
        id="seq",
        at="received_at",
        at_once=at_once,
    )


class Upkeep:
    """A component that runs the steps below in loops. Tests call each step directly."""

    def __init__(self, db: Database, catalog: Catalog, waker: Waker, *, options: UpkeepOptions | None = None) -> None:
        self._db = db
        self._catalog = catalog
        self._waker = waker
        self._options = options or UpkeepOptions()
        self._paused = Walk()
        self._position = 0
        """The id of the last unhandled event that was examined. Zero: the next step begins with the first."""
        self._unhandled = Loop("unhandled", self.visit_unhandled, every_s=1.0)
        self._loops = [
            self._unhandled,
            Loop("sql claims", self.expire, every_s=10.0, waits_first=True),
            Loop("paused sources", self.group_paused, every_s=5.0),
            Loop("paced sources", self.pace, every_s=0.05),
            Loop("webhook counts", self.count, every_s=5.0, waits_first=True),
            Loop("old events", self.prune, every_s=60.0, waits_first=True),
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
            self._unhandled.nudge()

    async def visit_unhandled(self) -> int:
        """Move events to the queue `events` if a live worker handles their type by now, or end those that nobody can
        handle.

        Looks at the next events after those of the last call, and goes on for as long as it moves or ends some. Returns
        how many. Each type is logged once.
        """
        total = 0
        while True:
            async with self._db.acquire() as conn:
                row = await conn.fetchrow(
                    VISIT, self._options.unhandled_after_s, PATIENCE.total_seconds(), self._position, AT_ONCE
                )
                assert row is not None
                self._position = _position(row)
                for each in row["types"] or ():
                    await self._warn_once(conn, each["provider"], each["type"], each["source"])
            for task in row["new_tasks"] or ():
                note(UNHANDLED_QUEUE, task, "no_app")
            if row["moved"]:
                self._waker.wake(QUEUE)
            done: int = row["moved"] + row["unhandled"] + row["dead"]
            total += done
            if not done or not self._position:
                return total

    async def _warn_once(self, conn: Connection, provider: str, type: str, source: str | None) -> None:
        """Warn at the first event of a type. Other sources of the same provider may send the type too."""
        if await conn.fetchval(WARN_ONCE, provider, type):
            hint = f'write @app.on("{provider}", "{type}"), then `onceward events replay --type {type} --unhandled`'
            log.warning("event_type.unhandled", source=source, provider=provider, type=type, hint=hint)

    async def expire(self) -> int:
        """Release events that were claimed through SQL and never marked; return how many."""
        age = timedelta(seconds=self._options.sql_claim_expiry_s)
        return await self._db.fetchval("select webhook.release_expired($1)", age)

    async def group_paused(self) -> None:
        """Put events of paused sources that wait outside lanes, such as retries, into the lanes of their sources."""
        if any(source.paused for source in self._catalog.sources()):
            async with self._db.acquire() as conn:
                window = await self._paused.next(conn)
                await conn.execute(GROUP_PAUSED, window.after, window.through)

    async def pace(self) -> None:
        """Wake the workers when a rate-limited source may run its next event, instead of waiting for their next
        poll."""
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
        """Strip old bodies, then delete events past the duplicate period, if any; return how many rows were
        examined."""
        looked = 0
        rows = await self._db.fetch(
            "select distinct retention_days from onceward.sources where retention_days is not null"
        )
        for days in (None, *(row["retention_days"] for row in rows)):
            bodies = old_bodies(self._db, self._options, days=days, at_once=at_once)
            looked += await bodies.all()
        if (keep := self._options.keep_keys) is not None:
            await old_event_ids(self._db, keep, at_once=at_once).all()
            async with self._db.acquire() as conn:
                await transmissions.forget(conn, keep)
        return looked


def _position(row: Record) -> int:
    """Return the id after which the next call continues: zero if this one saw the last event."""
    return row["last"] if row["seen"] == AT_ONCE else 0
