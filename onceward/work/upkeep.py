"""Maintenance of the tables of work: release lost claims, prune finished jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

import structlog

from onceward.db import Connection, Database
from onceward.work.retention import Retention
from onceward.work.statements import (
    PRUNE_JOBS,
    RELEASE_ORPHANS,
    RELEASE_UNKNOWN,
)
from onceward.work.walk import Walk

log = structlog.get_logger(__name__)


async def release_unknown(conn: Connection, worker: int, known: Callable[[int], bool]) -> int:
    """Release the rows of leases that this worker does not know: the replies of their claims were lost.

    A worker registers a lease before it sends the claim. The leases are read before `known` is called, so a claim that
    is made meanwhile is either not in the list or known.
    """
    held = await conn.fetch("select lease from onceward.claims where worker = $1", worker)
    lost = [row["lease"] for row in held if not known(row["lease"])]
    if not lost:
        return 0
    rows = await conn.fetch(RELEASE_UNKNOWN, worker, lost)
    if rows:
        log.warning("lost_claims.released", worker=worker, count=len(rows))
    return len(rows)


async def release_orphans(conn: Connection, walk: Walk | None = None, *, older_than_s: float = 60.0) -> int:
    """Release the rows of the next window whose lease has no row in `claims`. Return how many.

    Such rows appear only if PostgreSQL loses commits: after a failover to a standby that lagged behind, or a crash with
    synchronous_commit off. The outcome of the work is lost, and its row in `claims` had been deleted before.
    """
    window = await (walk or Walk()).next(conn)
    rows = await conn.fetch(RELEASE_ORPHANS, older_than_s, window.after, window.through)
    if rows:
        log.warning("orphaned_leases.released", count=len(rows), hint="did the database lose its last commits?")
    return len(rows)


async def forget_finished(conn: Connection, leases: Sequence[int]) -> None:
    """Delete the rows of claims that have no outstanding work."""
    if leases:
        await conn.execute("delete from onceward.claims where lease = any($1::bigint[])", leases)


def old_jobs(db: Database, *, keep: timedelta, at_once: int = 1000) -> Retention:
    """Return the retention of jobs: finished jobs older than `keep` are deleted with their attempts and checkpoints."""
    return Retention(db=db, name="jobs", table="onceward.jobs", prune=PRUNE_JOBS, keep=keep, at_once=at_once)
