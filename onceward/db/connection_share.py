"""How many pooled connections a process may use: its share of what the installation may open.

Every process writes down what it needs when it notes itself (`processes.py`), and reads what the others need. So a
process that starts makes the pools of the others smaller within seconds, and one that ends makes them larger. Some
connections of the server stay free for commands and for the operators' own tools.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from onceward.db.pool import Database
from onceward.db.transaction import Connection
from onceward.statements import read_statement

RESERVE = 10
"""Connections of the server that all processes together leave to commands, `psql` and monitoring."""
FEWEST = 2
"""The pool of a process is never smaller, also if the installation then exceeds its limit: `doctor` reports that."""

SERVER = read_statement("db", "connections_of_server")
DEMANDS = """
select id, outside, pool from onceward.processes
 where pool > 0 and seen_at > clock_timestamp() - make_interval(secs => $1) order by id
"""


@dataclass(frozen=True, slots=True)
class Demand:
    """What a process needs: connections outside its pool, and the most that its pool can use."""

    outside: int
    pool: int


@dataclass(frozen=True, slots=True)
class Connections:
    """The connections of the server, and what the running processes of this installation need."""

    server: int
    """How many sessions the server accepts from logins without special rights."""
    open: int
    """How many sessions the server has now, of all its databases."""
    demands: dict[UUID, Demand]

    def limit(self, configured: int | None) -> int:
        """Return how many connections all processes together may open."""
        return self.server - RESERVE if configured is None else configured

    @property
    def free(self) -> int:
        """Return how many connections are free besides the reserve."""
        return self.server - RESERVE - self.open


async def read_connections(db: Database | Connection, *, counts_for_s: float) -> Connections:
    """Read the limits of the server and what the processes need that noted themselves within this time."""
    server = await db.fetchrow(SERVER)
    assert server is not None  # it has no condition
    rows = await db.fetch(DEMANDS, counts_for_s) if server["has_processes"] else []
    demands = {row["id"]: Demand(row["outside"], row["pool"]) for row in rows}
    return Connections(server["server"], server["open"], demands)


def share_pools(demands: Sequence[Demand], limit: int) -> list[int]:
    """Return the size of each pool, so that all connections together stay within the limit.

    Who needs less than an equal part gets what it needs, and the others share the rest equally.
    """
    left = limit - sum(each.outside for each in demands)
    sizes = [0] * len(demands)
    by_need = sorted(range(len(demands)), key=lambda index: demands[index].pool)
    for position, index in enumerate(by_need):
        equal = left // (len(demands) - position)
        sizes[index] = max(FEWEST, min(demands[index].pool, equal))
        left -= sizes[index]
    return sizes
