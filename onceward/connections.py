"""The maximum number of database connections that one process opens, by purpose."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass

from onceward.inbox.store import MOST_CONNECTIONS as INBOX_MOST
from onceward.work.claim_connections import MOST as CLAIMS_MOST

SCHEDULER_POOL = 5
"""A process that only schedules runs short statements: it needs no larger pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionBudget:
    """The maximum for each purpose. A process opens a connection outside the pool when it first needs it."""

    pool: int
    claims: int
    heartbeat: int
    listen: int
    inbox: int
    live: int
    primary: int

    @property
    def total(self) -> int:
        return sum(asdict(self).values())

    def __str__(self) -> str:
        return ", ".join(f"{name} {count}" for name, count in asdict(self).items() if count)


def connection_budget(
    *, pool_max: int, roles: Collection[str], pgbouncer: bool = False, servers: int = 1
) -> ConnectionBudget:
    """Return how many connections a process with these roles (`web`, `worker`, `scheduler`) opens at most.

    With several servers, each process opens a short connection every few seconds to find out which one accepts writes.
    """
    worker, web = "worker" in roles, "web" in roles
    return ConnectionBudget(
        pool=pool_max if worker or web else min(pool_max, SCHEDULER_POOL),
        claims=CLAIMS_MOST if worker else 0,
        heartbeat=1 if worker else 0,
        listen=0 if pgbouncer else 1,
        inbox=INBOX_MOST if web else 0,
        live=1 if web else 0,
        primary=1 if servers > 1 else 0,
    )
