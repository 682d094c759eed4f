"""Presence: which users are in which place. Leases end the presence of crashed browsers and nodes.

Open connections share the lease of their node. Clients without a connection have a lease of their own (`set_presence`).
Several tabs count as one user, who is online if any tab is.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal
from uuid import UUID, uuid5

from onceward.db import Database, Transaction
from onceward.live.query import Query
from onceward.statements import read_statement

Status = Literal["online", "away", "offline"]
LEASE = timedelta(minutes=5)
API_LEASES = UUID("6f6e6365-7761-7264-6c69-766570726573")

ENTER = read_statement("live", "enter_place")
TAKE = read_statement("live", "enter_place_until")
SWEEP = read_statement("live", "sweep_presence")
HERE = read_statement("live", "list_present")


async def set_presence(
    tx: Transaction, place: str, user_id: str, status: Status = "online", *, lease: timedelta = LEASE
) -> None:
    """Set the presence of a user without a live connection. Call it again before the lease ends. `offline` ends it."""
    holder = uuid5(API_LEASES, f"{tx.organization}/{user_id}")
    if status == "offline":
        await tx.execute("delete from onceward.presence where holder = $1 and place = $2", holder, place)
        return
    await tx.execute(TAKE, tx.organization, place, user_id, holder, status, lease)


async def enter(
    db: Database, *, organization: UUID | None, place: str, user_id: str, holder: UUID, node: UUID, status: Status
) -> None:
    """Record the status of a connection of this node in a place. A repeated call with the same status writes
    nothing."""
    if status == "offline":
        await db.execute("delete from onceward.presence where holder = $1 and place = $2", holder, place)
    else:
        await db.execute(ENTER, organization, place, user_id, holder, node, status)


async def leave(db: Database, holders: Sequence[UUID]) -> None:
    """Remove closed connections from all places."""
    await db.execute("delete from onceward.presence where holder = any ($1::uuid[])", list(holders))


async def sweep(db: Database) -> None:
    """Delete rows without a valid lease. Queries already ignore them."""
    await db.execute(SWEEP)


async def presence(q: Query, *, place: str) -> dict[str, object]:
    """Return who is in a place now. This is a built-in live query."""
    q.watch("onceward.presence", place=place)
    q.ignore("onceward.live_nodes")  # renewals do not change the result; `stale_at` covers the end of a lease
    rows = await q.fetch(HERE, place)
    q.stale_at(min((row["until"] for row in rows), default=None))
    users = [{"user_id": row["user_id"], "status": row["status"], "since": row["since"]} for row in rows]
    return {"place": place, "count": len(users), "users": users}
