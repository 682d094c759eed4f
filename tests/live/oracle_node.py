"""A node in a process of its own, so that it can be killed: `python -m tests.live.oracle_node URL`."""

from __future__ import annotations

import asyncio
import sys
from typing import Any
from uuid import UUID

from onceward import Onceward, Query
from onceward.db import Database
from tests.live.conftest import Site


def oracle_app() -> Onceward:
    app = Onceward("oracle")
    app.topic("topic/{n}", allow="user")

    @app.query(allow="user")
    async def by_event(q: Query, *, event_id: UUID) -> Any:
        q.watch("shop.seats", event_id=event_id)
        return await q.fetch("select id, label, status from shop.seats where event_id = $1 order by id", event_id)

    @app.query(allow="user")
    async def counts(q: Query) -> Any:
        q.watch("shop.seats")
        return await q.fetch(
            "select event_id::text, count(*), min(label) as label from shop.seats group by 1 order by 1"
        )

    @app.query(allow="user")
    async def sold_of(q: Query, *, event_id: UUID, status: str) -> Any:
        q.watch("shop.seats", event_id=event_id, status=status)
        return await q.fetchval(
            "select coalesce(array_agg(id order by id), '{}') from shop.seats where event_id = $1 and status = $2",
            event_id,
            status,
        )

    @app.query(allow="user")
    async def follows_data(q: Query) -> Any:
        """What it watches depends on what it finds: the seats of the event that has the newest label."""
        q.watch("shop.picked")
        event = await q.fetchval("select event_id from shop.picked where organization_id = $1", q.organization)
        if event is None:
            return None
        q.watch("shop.seats", event_id=event)
        return await q.fetchval("select count(*) from shop.seats where event_id = $1", event)

    return app


async def main(url: str) -> None:
    database = await Database.open(url, min_size=1, max_size=6)
    here = Site(database, oracle_app(), linger_s=0.5, topic_replay=5000, max_messages_per_s=10_000)
    await here.start()
    print(here.web.port, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
