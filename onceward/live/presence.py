"""Who is where: leases, so that a crashed browser or node does not stay online for ever.

While a connection is open its node vouches for it: one lease per node, renewed for all its connections at once. Who
speaks through the API takes a lease of their own. Several tabs count as one user, online if any of them is.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal
from uuid import UUID, uuid5

from onceward.db import Database, Transaction
from onceward.live.query import Query

Status = Literal["online", "away", "offline"]
LEASE = timedelta(minutes=5)
API_LEASES = UUID("6f6e6365-7761-7264-6c69-766570726573")

ENTER = """
insert into onceward.presence (organization_id, place, user_id, holder, node, status)
values ($1, $2, $3, $4, $5, $6)
on conflict (holder, place) do update set status = excluded.status, since = onceward.now()
 where presence.status <> excluded.status
"""

TAKE = """
insert into onceward.presence (organization_id, place, user_id, holder, status, expires_at)
values ($1, $2, $3, $4, $5, onceward.now() + $6::interval)
on conflict (holder, place) do update set
    status = excluded.status, expires_at = excluded.expires_at,
    since = case when presence.status = excluded.status then presence.since else onceward.now() end
"""

SWEEP = """
delete from onceward.presence p
 where p.expires_at <= onceward.now()
    or (p.node is not null and not exists
        (select from onceward.live_nodes n where n.node = p.node and n.expires_at > onceward.now()))
"""

HERE = """
select p.user_id, min(p.since) as since,
       case when bool_or(p.status = 'online') then 'online' else 'away' end as status,
       min(coalesce(n.expires_at, p.expires_at)) as until
  from onceward.presence p left join onceward.live_nodes n on n.node = p.node
 where p.place = $1 and coalesce(n.expires_at, p.expires_at) > onceward.now()
 group by p.user_id order by p.user_id
"""


async def set_presence(
    tx: Transaction, place: str, user_id: str, status: Status = "online", *, lease: timedelta = LEASE
) -> None:
    """For clients that speak HTTP: call it again before the lease ends. `offline` ends it at once."""
    holder = uuid5(API_LEASES, f"{tx.organization}/{user_id}")
    if status == "offline":
        await tx.execute("delete from onceward.presence where holder = $1 and place = $2", holder, place)
        return
    await tx.execute(TAKE, tx.organization, place, user_id, holder, status, lease)


async def enter(
    db: Database, *, organization: UUID | None, place: str, user_id: str, holder: UUID, node: UUID, status: Status
) -> None:
    """A connection of this node is in a place; said again with the same status it writes nothing."""
    if status == "offline":
        await db.execute("delete from onceward.presence where holder = $1 and place = $2", holder, place)
    else:
        await db.execute(ENTER, organization, place, user_id, holder, node, status)


async def leave(db: Database, holders: Sequence[UUID]) -> None:
    """These connections are gone."""
    await db.execute("delete from onceward.presence where holder = any ($1::uuid[])", list(holders))


async def sweep(db: Database) -> None:
    """Remove what no living lease stands behind; queries already do not see it."""
    await db.execute(SWEEP)


async def presence(q: Query, *, place: str) -> dict[str, object]:
    """The built-in live query: who is in a place now."""
    q.watch("onceward.presence", place=place)
    q.ignore("onceward.live_nodes")  # renewals change nothing; the end of a lease is a matter of time
    rows = await q.fetch(HERE, place)
    q.stale_at(min((row["until"] for row in rows), default=None))
    users = [{"user_id": row["user_id"], "status": row["status"], "since": row["since"]} for row in rows]
    return {"place": place, "count": len(users), "users": users}
