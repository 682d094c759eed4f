"""Handlers without a transaction: their events are acknowledged together, each with its result, under its lease."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from onceward import Event, Onceward
from onceward.inbox.event import EventKind
from tests.inbox.conftest import Office

MakeOffice = Callable[[Onceward], Awaitable[Office]]
COUNT = 8


async def test_events_that_end_together_share_a_commit_and_keep_their_results(office: MakeOffice) -> None:
    app = Onceward("alone")
    everybody = asyncio.Barrier(COUNT)

    @app.on("stripe", "charge.succeeded")
    async def handle(event: Event) -> str | None:
        await everybody.wait()
        return None if event.event_id == "evt_0" else event.event_id

    here = await office(app)
    await here.source()
    for number in range(COUNT):
        await here.post(fields={"id": f"evt_{number}"})
    await here.start_worker()
    for row in await here.db.fetch("select seq from onceward.webhook_events"):
        await here.status(row["seq"], "success")
    rows = await here.db.fetch(
        "select e.event_id, e.attempts, e.result, a.outcome, a.number, a.result as recorded, a.xmin::text as commit"
        " from onceward.webhook_events e join onceward.attempts a on a.work_id = e.seq"
    )
    assert {row["event_id"]: row["result"] for row in rows} == {
        f"evt_{number}": f"evt_{number}" if number else None for number in range(COUNT)
    }
    assert all((row["attempts"], row["outcome"], row["number"]) == (1, "success", 1) for row in rows)
    assert all(row["result"] == row["recorded"] for row in rows)
    assert len({row["commit"] for row in rows}) < COUNT, "several events share a commit"
    assert await here.db.fetchval("select count(*) from onceward.work") == 0


async def test_an_acknowledgement_under_a_lost_lease_changes_nothing(office: MakeOffice) -> None:
    here = await office(Onceward("alone"))
    await here.source()
    kept, lost = [(await here.post(fields={"id": id})).json["id"] for id in ("evt_kept", "evt_lost")]
    await here.db.execute("update onceward.work set lease = id, claimed_at = now()")
    assert await here.db.fetchval(EventKind.finish, [kept, lost], [kept], 1, {str(kept): "done"}) == 1
    rows = await here.db.fetch("select event_id, status, result from onceward.webhook_events order by event_id")
    assert [tuple(row) for row in rows] == [("evt_kept", "success", "done"), ("evt_lost", "pending", None)]
    assert await here.db.fetchval("select array_agg(id) from onceward.work") == [lost]
