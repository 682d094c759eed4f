"""Measure what retention costs in a large table of events: `python tools/retention.py --rows 100000 2000000`.

For each size the script fills an embedded PostgreSQL (fsync on) with finished events and their attempts, then runs the upkeep: strip the
bodies of events older than 30 days, delete events older than 400 days. It prints rows per second without the pauses of the upkeep, the
pages that are read to find one batch, the bytes of log that are written, and the plan of a batch.

Ten million rows take a while, so the two parts can be run apart, in a data directory that stays:

    python tools/retention.py --rows 10000000 --data DIR --fill --seconds 200     again until it says "filled"
    python tools/retention.py --rows 10000000 --data DIR --measure
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable
from datetime import timedelta
from pathlib import Path
from typing import Any

from onceward.db import Database, migrate
from onceward.db.embedded import EmbeddedPostgres
from onceward.inbox import UpkeepOptions
from onceward.inbox.upkeep import old_bodies, old_event_ids
from onceward.runtime import FEATURES
from onceward.work import Retention

FILL = """
insert into onceward.webhook_events (seq, webhook_id, event_id, provider, type, payload, raw, status, attempts,
    received_at)
select n, '00000000-0000-4000-8000-00000000050a', 'evt_' || md5(n::text), 'stripe', 'charge.succeeded',
       case when n > $3 then jsonb_build_object('id', n, 'note', repeat('x', 120)) end,
       case when n > $3 then convert_to(repeat('x', 150), 'utf8') end,
       'success', 1, now() - case when n <= $3 then interval '500 days' when n <= 2 * $3 then interval '60 days' else
           interval '1 day' end
  from generate_series($1::bigint, $2::bigint) n
"""
ATTEMPTS = """
insert into onceward.attempts (work_id, number, kind, task, outcome, finished_at)
select n, 1, 'event', 'stripe/charge.succeeded', 'success', now()
  from generate_series(greatest($1, $3 + 1)::bigint, $2::bigint) n
"""
MARK = "insert into onceward.prune_marks (name, through) values ('events:default', $1) on conflict do nothing"
STEP = 250_000
KEEP, KEEP_KEYS = timedelta(days=30), timedelta(days=400)


async def fill(db: Database, rows: int, due: int, *, seconds: float = math.inf) -> bool:
    """Add rows after the last one until there are `rows`, or `seconds` have passed. Return whether all are there."""
    ends = time.monotonic() + seconds
    async with db.acquire() as conn:
        await conn.execute("set session_replication_role = replica; set synchronous_commit = off")
        last: int = await conn.fetchval("select coalesce(max(seq), 0) from onceward.webhook_events")
        while last < rows:
            if time.monotonic() > ends:
                print(f"{last:,} of {rows:,} events: run it again", flush=True)
                return False
            start, last = last + 1, min(last + STEP, rows)
            async with conn.transaction():
                await conn.execute(FILL, start, last, due)
                if last > due:
                    await conn.execute(ATTEMPTS, start, last, due)
        await conn.execute("reset session_replication_role; reset synchronous_commit")
        await conn.execute(MARK, due)
        await conn.execute("vacuum (analyze) onceward.webhook_events")
        await conn.execute("vacuum (analyze) onceward.attempts")
        await conn.execute("checkpoint")
    return True


async def empty(db: Database) -> None:
    await db.execute("truncate onceward.webhook_events, onceward.attempts, onceward.prune_marks, onceward.prune_later")


async def explain(db: Database, statement: str, *arguments: Any) -> dict[str, Any]:
    """Return the plan of one batch, which is rolled back."""
    async with db.acquire() as conn:
        await conn.execute("begin")
        text = await conn.fetchval(f"explain (analyze, buffers, format json) {statement}", *arguments)
        await conn.execute("rollback")
    return (json.loads(text) if isinstance(text, str) else text)[0]


def nodes(plan: dict[str, Any], depth: int = 0) -> list[str]:
    """Return the plan in short: node, relation, index, rows, pages of the node and those below it."""
    where = plan.get("Relation Name", "") + (f" by {plan['Index Name']}" if "Index Name" in plan else "")
    pages = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    line = (
        f"{'  ' * depth}{plan['Node Type']} {where} rows {plan['Actual Rows'] * plan['Actual Loops']:.0f} pages {pages}"
    )
    return [line, *(inner for child in plan.get("Plans", ()) for inner in nodes(child, depth + 1))]


class Timed:
    """The part of a database that the upkeep uses. It notes how long each statement took."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.took: list[float] = []

    async def fetch(self, query: str, *args: Any) -> Any:
        return await self._measure(self._db.fetch(query, *args))

    async def fetchval(self, query: str, *args: Any) -> Any:
        return await self._measure(self._db.fetchval(query, *args))

    async def execute(self, query: str, *args: Any) -> Any:
        return await self._measure(self._db.execute(query, *args))

    async def _measure(self, statement: Awaitable[Any]) -> Any:
        began = time.monotonic()
        answer = await statement
        self.took.append(time.monotonic() - began)
        return answer


def strip(timed: Any) -> Retention:
    return old_bodies(timed, UpkeepOptions(keep=KEEP), days=None)


def delete(timed: Any) -> Retention:
    return old_event_ids(timed, KEEP_KEYS)


async def prune_due(retention: Retention, due: int) -> int:
    looked = 0
    while looked < due:
        found = await retention.next_window()
        looked += found
        if found < retention.window:
            break
    return looked


async def written(db: Database) -> tuple[int, int, int]:
    """Return how many bytes of log were written, how many events were updated, and how many of these within their page."""
    row = await db.fetchrow(
        """
        select pg_current_wal_insert_lsn() - '0/0'::pg_lsn as wal, s.n_tup_upd, s.n_tup_hot_upd,
               pg_stat_force_next_flush()
          from pg_stat_user_tables s where s.relid = 'onceward.webhook_events'::regclass
        """
    )
    assert row is not None
    return int(row["wal"]), row["n_tup_upd"], row["n_tup_hot_upd"]


async def measure(db: Database, due: int, *, show_plan: bool) -> None:
    size = await db.fetchval("select pg_size_pretty(pg_total_relation_size('onceward.webhook_events'))")
    rows = await db.fetchval("select max(seq) - min(seq) + 1 from onceward.webhook_events")
    print(f"{rows:,} events, {size} with indexes", flush=True)
    for name, make, after in (("strip", strip, due), ("delete", delete, 0)):
        retention = make(db)
        ids = list(range(after + 1, after + 1 + retention.at_once, retention.turns))
        plan = await explain(db, retention.prune, retention.keep, ids)
        pages = plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"]
        before = await written(db)
        timed = Timed(db)
        looked = await prune_due(make(timed), due)
        await asyncio.sleep(1.5)  # the statistics of the sessions are up to a second old
        wal, updated, in_page = (after - first for after, first in zip(await written(db), before, strict=True))
        print(
            f"  {name}: {looked / sum(timed.took):,.0f} rows/s; a statement: median "
            f"{statistics.median(timed.took) * 1000:.0f} ms, longest {max(timed.took) * 1000:.0f} ms, {pages:,} pages "
            f"read for {len(ids)} rows; {wal / looked:,.0f} bytes of log a row"
            + (f"; {in_page / updated:.0%} of the updates within their page" if updated else ""),
            flush=True,
        )
        if show_plan:
            print("\n".join(f"    {line}" for line in nodes(plan["Plan"])), flush=True)
    began = time.monotonic()
    # Without the option it would leave the indexes alone if few pages have dead rows, as an autovacuum does.
    await db.execute("vacuum (index_cleanup on) onceward.webhook_events")
    print(f"  vacuum with all indexes: {time.monotonic() - began:.1f} s", flush=True)


def forget_cached(directory: Path) -> None:
    """Let the kernel drop what it has cached of these files. The server must not run."""
    os.sync()
    for path in directory.rglob("*"):
        if path.is_file():
            file = os.open(path, os.O_RDONLY)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(file)


async def run(url: str, given: argparse.Namespace) -> None:
    db = await Database.open(url, min_size=1, max_size=2)
    conn = await db.connect()
    await migrate(conn, FEATURES.migrations)
    await conn.close()
    both = given.fill == given.measure
    for rows in given.rows:
        if both:
            await empty(db)
        if (both or given.fill) and await fill(db, rows, given.due, seconds=given.seconds):
            print(f"{rows:,} events: filled", flush=True)
        if both or given.measure:
            await measure(db, given.due, show_plan=rows == given.rows[-1])
    await db.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[200_000, 2_000_000], help="sizes of the table")
    parser.add_argument("--due", type=int, default=50_000, help="rows to strip, and rows to delete")
    parser.add_argument("--data", type=Path, help="a directory that stays (a temporary one)")
    parser.add_argument("--fill", action="store_true", help="only add the rows that are missing (fill and measure)")
    parser.add_argument("--measure", action="store_true", help="only measure a filled table")
    parser.add_argument(
        "--cold", action="store_true", help="with --measure: nothing of the table is in memory at first"
    )
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop adding rows after this time")
    given = parser.parse_args()
    if given.fill != given.measure and (given.data is None or len(given.rows) != 1):
        parser.error("--fill and --measure need --data DIR and one size")
    with tempfile.TemporaryDirectory(prefix="onceward-retention-") as directory:
        Path(directory).chmod(0o755)  # if root runs this, the database runs as another user
        server = EmbeddedPostgres(given.data or Path(directory) / "data")
        if given.cold:
            forget_cached(server.data_dir)
        try:
            asyncio.run(run(server.start(), given))
        finally:
            server.stop()


if __name__ == "__main__":
    main()
