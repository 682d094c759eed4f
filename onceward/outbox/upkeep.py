"""Maintain the outbox: warn about and disable failing endpoints, end deliveries to disabled endpoints, prune old data.

Each step is small and safe to repeat; any node may run it.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import structlog

from onceward.db import Connection, Database
from onceward.outbox import metrics
from onceward.statements import read_statement
from onceward.trust import audit
from onceward.work import Retention, in_batches, retentions

log = structlog.get_logger(__name__)

WINDOW = timedelta(hours=24)
MOST_FAILURES = 10
MOST_RATE = 0.5
LEAST_SPREAD = timedelta(hours=1)
WARN_FROM = 6
"""The owner is warned after this many failures if the failure rate is also too high."""

FAILING = read_statement("outbox", "find_failing_endpoints")
DELIVERED = read_statement("outbox", "count_delivered")
COMMITTED_UNTIL = read_statement("outbox", "committed_until")
FOLD = read_statement("outbox", "fold_statistics")
SWEEP = read_statement("outbox", "cancel_disabled")
PRUNE = read_statement("outbox", "prune_published")
PRUNE_DIRECT = read_statement("outbox", "prune_direct_endpoints")
FORGET_DIRECT = read_statement("outbox", "forget_direct_endpoints")
FORGET_KEYS = read_statement("outbox", "forget_keys")


async def watch(db: Database) -> list[str]:
    """Warn about failing endpoints and disable those above the limit. Return the ids of the disabled endpoints."""
    disabled: list[str] = []
    for row in await db.fetch(FAILING, WINDOW, WARN_FROM):
        async with db.transaction(role="engine", organization=row["organization_id"]) as tx:
            delivered: int = await tx.fetchval(DELIVERED, row["endpoint_id"], WINDOW)
            rate = row["failed"] / (row["failed"] + delivered)
            details = {"failures": row["failed"], "delivered": delivered, "failure_rate": round(rate, 3)}
            if rate <= MOST_RATE:
                continue
            if row["failed"] > MOST_FAILURES and row["last_at"] - row["first_at"] >= LEAST_SPREAD:
                if await tx.fetchval(
                    "select onceward.disable_endpoint($1, 'failing', $2)", row["endpoint_id"], details
                ):
                    await audit.record(
                        tx,
                        "endpoint.disabled",
                        entity_type="endpoint",
                        entity_id=row["endpoint_id"],
                        actor="system",
                        reason="too many deliveries failed",
                        metadata=details,
                    )
                    disabled.append(str(row["endpoint_id"]))
            elif row["warned_at"] is None:
                await tx.execute("select onceward.warn_endpoint($1, $2)", row["endpoint_id"], details)
    if disabled:
        metrics.DISABLED.inc(len(disabled))
        log.warning("endpoints.disabled", endpoints=disabled, hint="too many deliveries failed; the owners get a mail")
    return disabled


async def sweep(conn: Connection, *, at_once: int = 1000) -> int:
    """End up to `at_once` waiting deliveries of disabled endpoints. They can be recovered when the endpoint is
    enabled."""
    return await conn.fetchval(SWEEP, at_once)


async def count_attempts(db: Database) -> None:
    """Add the attempts since the last call to the statistics of their endpoints. Each attempt counts once."""
    async with db.transaction(role="engine") as tx:
        # Locked first: of two nodes, the second continues where the first ended.
        since = await tx.fetchval("select counted_until from onceward.endpoint_statistics_mark for update")
        until = await tx.fetchval(COMMITTED_UNTIL)
        if until > since:
            await tx.execute(FOLD, since, until)
            await tx.execute("update onceward.endpoint_statistics_mark set counted_until = $1", until)


def old_events(db: Database, *, keep: timedelta) -> Retention:
    """Return the retention of published events, which includes their deliveries."""
    return Retention(db=db, name="published", table="onceward.published", prune=PRUNE, keep=keep)


def old_records(db: Database, *, keep: timedelta) -> list[Retention]:
    """Return the retentions of sent notices to owners of endpoints, and of resends that have ended."""
    finished = {"endpoint_notices": "r.told_at is not null", "resends": "r.state <> 'running'"}
    return retentions(db, finished, keep=keep)


async def prune(db: Database, *, keep: timedelta, keep_keys: timedelta | None) -> int:
    """Delete old events and deliveries. An event with an idempotency key stays without its body, for `keep_keys`.

    Returns how many old events were examined.
    """
    looked = await old_events(db, keep=keep).all()
    if keep_keys is not None:
        await in_batches(partial(db.fetchval, FORGET_KEYS, keep_keys))
    await db.execute(PRUNE_DIRECT, None)
    await db.execute(FORGET_DIRECT)
    for each in old_records(db, keep=keep):
        await each.all()
    await db.execute("delete from onceward.portal_tokens where expires_at < onceward.now()")
    await db.execute("delete from onceward.endpoint_secrets where expires_at < onceward.now() - interval '1 day'")
    return looked
