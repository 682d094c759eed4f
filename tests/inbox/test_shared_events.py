"""Events that wait share a commit: stored first, handled later, each with its own cause and organization."""

from __future__ import annotations

from onceward import Engine, Event, Onceward, Tx
from onceward.testing import TestInbox, drain
from onceward.trust import create_organization


async def test_events_that_wait_share_a_commit_and_a_failure_costs_only_its_owner(db) -> None:
    app = Onceward("meter")

    @app.on("standard", "reading", retry=[])
    async def store(event: Event, tx: Tx) -> int:
        n = event.data["n"]
        await tx.execute("insert into readings values ($1)", n)
        if n == 5:
            raise RuntimeError("this reading cannot be stored")
        return n

    await db.execute(
        "create table readings (n int, cause text default current_setting('onceward.cause'),"
        " owner text default current_setting('onceward.organization')); grant all on readings to onceward_app"
    )
    engine = Engine(db, app.registry)
    async with db.transaction(role="engine") as tx:
        acme = (await create_organization(tx, "acme", actor="test")).organization_id
    async with TestInbox(engine, app) as inbox:
        await inbox.add_source("standard")
        await inbox.add_source("acme", provider="standard", organization=acme)
        for n in range(8):
            body = {"type": "reading", "data": {"n": n}}
            source = ("standard", "acme")[n % 2]
            assert (await inbox.post(body, source=source, event_id=f"reading-{n}")).status == 200
        assert await drain(engine) == 8
    seqs = {row["event_id"]: row["seq"] for row in await db.fetch("select event_id, seq from onceward.webhook_events")}
    rows = await db.fetch("select * from readings order by n")
    assert [row["n"] for row in rows] == [0, 1, 2, 3, 4, 6, 7]
    for row in rows:
        assert row["cause"] == f"event:{seqs['reading-' + str(row['n'])]}"
        assert row["owner"] == (str(acme) if row["n"] % 2 else "")
    attempts = await db.fetch("select kind, outcome, shared, result from onceward.attempts order by work_id")
    assert {row["kind"] for row in attempts} == {"event"}
    assert [row["outcome"] for row in attempts] == ["success"] * 5 + ["dead_letter"] + ["success"] * 2
    assert all(row["shared"] > 1 for row in attempts if row["outcome"] == "success")
    assert [row["result"] for row in attempts if row["outcome"] == "success"] == [0, 1, 2, 3, 4, 6, 7]
    assert await db.fetchval("select count(distinct xmin::text) from readings") == 2
