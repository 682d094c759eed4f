"""What runs periodically must not read what is merely there: no step scans a table that grows with use."""

from __future__ import annotations

import ast
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import onceward
from onceward.db import Connection, Database
from onceward.inbox import transmissions
from onceward.inbox import upkeep as inbox
from onceward.live import feed_trim
from onceward.messages import expiry, notifier, retention
from onceward.outbox import upkeep as outbox
from onceward.payments import due as payments
from onceward.payments import metrics as payment_metrics
from onceward.schedules import scheduler
from onceward.statements import read_statement
from onceward.web.idempotency import PRUNE as OLD_KEYS
from onceward.work import liveness
from onceward.work import statements as work
from onceward.work.claim import BEGINNING
from onceward.work.retention import DUE, MARK, MOVE, Retention
from onceward.work.upkeep import old_jobs
from onceward.workflows import operate as workflows
from tests.upkeep.filled import ROWS, filled
from tests.work.test_plans import explain, nodes

DAYS = timedelta(days=30)
WINDOW = (25_000, 25_500)
MOST_PAGES = 450
"""The table `work` alone has more pages than this; its windows in this test have 500 rows."""


def retained(make: Callable[..., Retention]) -> list[tuple[str, tuple[Any, ...]]]:
    """Return the statements of a retention, for the rows after the id 25,000 or the first ones of the table."""
    retention = make(cast(Database, None), keep=DAYS)
    ids = list(range(25_000, 25_500))
    return [
        (MARK, ("jobs",)),
        (retention.listing, (DAYS, 0, 1000)),
        (retention.prune, (DAYS, ids)),
        (MOVE, ("jobs", 0, 1, ids, [datetime.now(UTC)] * len(ids), "jobs")),
        (DUE, ("jobs", 1000)),
    ]


# The statements of each loop with their arguments.
LOOPS: dict[str, list[tuple[str, tuple[Any, ...]]]] = {
    "queues": [(work.WAITING_QUEUES, (["default"], ["x"]))],
    "rescue": [(work.OBSERVE_WORKERS, (5.0,))],
    "unserved": [
        (work.END_OF_WINDOW, (25_000, 500)),
        (work.NOTE_APPS, ()),
        (work.VISIT_UNSERVED, (86_400.0, *WINDOW)),
        (work.FORGET_SERVED, (BEGINNING,)),
    ],
    "orphans": [(work.RELEASE_ORPHANS, (60.0, *WINDOW))],
    "prune": [*retained(old_jobs), (work.FORGET_UNIQUE_KEYS, (1000,))],
    "old notifications": [
        statement
        for n in range(3)
        for statement in retained(lambda db, keep, n=n: retention.old_records(db, keep=keep)[n])
    ],
    "unfinished erasures": [
        (read_statement("trust", "finish_erasures"), ()),
        (read_statement("trust", "list_erasure_scans"), (["messages"],)),
    ],
    "claims": [(work.RELEASE_UNKNOWN, (1, [7]))],
    "stranded work": [
        (work.MOVING_QUEUES, ()),
        (work.WAITING_PLAIN, (300.0, 200)),
        (work.LANES_AFTER, ("", "", 2000)),
        (work.WAITING_LANES, (300.0, ["default"] * 50, [f"lane {n}" for n in range(50)])),
        (work.HELD_LONG, (3600.0, 300.0)),
        (work.LONG_UNSERVED, (300.0,)),
        (liveness.WORKERS, (60.0,)),
    ],
    "external jobs": [("select onceward.release_expired_jobs()", ())],
    "queue gauges": [(work.QUEUES, (100,))],
    "adaptive limit": [(work.QUEUES, (100,))],
    "limit reconciliation": [(read_statement("limits", "free_abandoned_slots"), ())],
    "unhandled": [(inbox.VISIT, (60.0, 86_400.0, 0, 1000))],
    "sql claims": [("select webhook.release_expired('15 min')", ())],
    "paused sources": [(inbox.GROUP_PAUSED, WINDOW)],
    "paced sources": [(inbox.PACED, ())],
    "webhook counts": [(inbox.TAKE_COUNTS, ())],
    "old events": [
        *retained(lambda db, keep: inbox.old_bodies(db, inbox.UpkeepOptions(keep=keep), days=None)),
        *retained(lambda db, keep: inbox.old_event_ids(db, keep)),
        (transmissions.FORGET, (DAYS,)),
    ],
    "schedules": [(read_statement("schedules", "due_schedules"), (["s"],))],
    "abandoned runs": [(read_statement("schedules", "fail_abandoned_runs"), ())],
    "prune runs": [(scheduler.PRUNE, (DAYS, 1000)), (scheduler.PRUNE_MARKS, (DAYS,))],
    "notices": [(notifier.DUE, (5.0, 900.0))],
    "old messages": retained(retention.old_messages),
    "expired messages": [(expiry.RELEASE, (1000,))],
    "payment reconciliation": [
        *((payments.TAKE_DUE.replace("{table}", table), (200,)) for table in payments.KINDS.values()),
        (payments.TAKE_CLOSING, (200,)),
        (payments.PRUNE_EARLY, ()),
    ],
    "payment gauges": [
        (payment_metrics.MEASURE, ()),
        (payment_metrics.COUNT_NOT_CLOSED, ()),
        (payment_metrics.COUNT_DIFFERENCES, ()),
    ],
    "endpoints": [(outbox.FAILING, (timedelta(days=1), 10))],
    "disabled endpoints": [(outbox.SWEEP, (1000,))],
    "resends": [(read_statement("outbox", "take_resend"), ())],
    "old deliveries": [
        *retained(outbox.old_events),
        *retained(lambda db, keep: outbox.old_records(db, keep=keep)[0]),
        *retained(lambda db, keep: outbox.old_records(db, keep=keep)[1]),
        (outbox.FORGET_KEYS, (DAYS, 1000)),
    ],
    "owners of endpoints": [(read_statement("outbox", "list_unsent_notices"), ())],
    "workflow upkeep": [
        (workflows.PRUNE, (DAYS, 1000)),
        (workflows.STRIP, (DAYS, 1000)),
    ],
    "live trim": [
        (feed_trim.TRIM_TOPICS, (86_400.0, "1:1:")),
        (feed_trim.TRIM_LONG_TOPICS, (200, "1:1:", 60.0)),
        (feed_trim.TRIM_FEED, ("1:1:",)),
        (read_statement("live", "sweep_presence"), ()),
    ],
    "expired idempotency keys": [(OLD_KEYS, ())],
}

# These read tables whose size does not depend on history, or no table at all.
SMALL = {
    "deadlines": "no statement",
    "contention": "asks for the locks of its own sessions, only while groups run",
    "refused accounts": "reads one row per account that a service refuses",
    "slow bodies": "no statement",
    "rejects": "inserts what was rejected since the last step",
    "sources": "reads all sources: they are configuration",
    "endpoint statistics": "reads the attempts since its last step, by the index on their time; also tested below",
    "live report": "writes one row",
    "live keep": "deletes by key",
    "expired logins": "reads sessions and login links, hourly: as many as people log in",
    "idle rates": "reads the rates of the last hour, hourly: the others were deleted",
    "old send slots": "reads one row per channel, sender and recipient with a limit, hourly",
    "expired holds": "a function whose conditions have an index; see tests/capacity",
    "clock": "reads the clock",
    "disk": "reads the sizes of files and the statistics of tables",
    "overdue schedules": "reads all schedules: they are configuration",
    "audit sealer": "takes up to 1,000 entries from the table of those that wait for their seal",
    "audit anchors": "reads the last link of the chain",
    "primary watch": "no statement",
    "supervision": "no statement",
    "process note": "writes one row per process",
    "heartbeat": "writes one row by key",
    "ledger checkpoints": "a function that reads the entries since the last checkpoint; see tests/ledger",
}


async def broken_rules(conn: Connection, statement: str, args: tuple[Any, ...]) -> list[str]:
    """Return the tables that the statement scans although they have many rows, and how much it reads if that is too much."""
    large = {
        row["relname"]
        for row in await conn.fetch("select relname from pg_class where relkind = 'r' and reltuples >= $1", ROWS)
    }
    transaction = conn.transaction()
    await transaction.start()
    plan = await explain(conn, statement, *args)
    await transaction.rollback()
    scanned = {
        f"seq scan of {node['Relation Name']}"
        for node in nodes(plan)
        if node["Node Type"] == "Seq Scan" and node["Relation Name"] in large and node["Actual Loops"]
    }
    pages = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    return [*scanned, *([f"{pages} pages"] if pages > MOST_PAGES else [])]


async def test_no_periodic_statement_scans_history_or_everything_unfinished(db: Database) -> None:
    await filled(db)
    found: dict[str, list[str]] = {}
    async with db.acquire() as conn:
        for loop, statements in LOOPS.items():
            for statement, args in statements:
                if broken := await broken_rules(conn, statement, args):
                    found[f"{loop}: {statement[:60]}"] = broken
        now = await conn.fetchval("select now()")
        if broken := await broken_rules(conn, outbox.FOLD, (now - timedelta(seconds=5), now)):
            found["endpoint statistics"] = broken
    assert found == {}


def test_every_loop_is_listed_here() -> None:
    root = Path(onceward.__file__).parent
    found: set[str] = set()
    for file in root.rglob("*.py"):
        source = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)) if "Loop(" in source else ():
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Loop"):
                continue
            if any(keyword.arg == "every_s" for keyword in node.keywords):
                name = node.args[0]
                assert isinstance(name, ast.Constant), f"{file}:{node.lineno}: the name of a loop is a literal"
                found.add(str(name.value))
    assert found == LOOPS.keys() | SMALL.keys()
