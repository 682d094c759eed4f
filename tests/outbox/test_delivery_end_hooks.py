"""Hooks at the end of a delivery: arrived, given up, resent; in the commit of the outcome, also if the hook fails."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from onceward import DeliveryEnd, Onceward, Tx
from onceward.db import Database
from onceward.outbox import resends
from onceward.testing import until
from onceward.testing.simulators import CustomerEndpoint
from tests.outbox.conftest import OutboxBench

MakeBench = Callable[..., Awaitable[OutboxBench]]


def hooked(*, failures: int = 0) -> Onceward:
    app = Onceward("shop")
    left = [failures]

    @app.on_delivery_end
    async def ended(tx: Tx, end: DeliveryEnd) -> None:
        status = await tx.fetchval("select status from onceward.deliveries where id = $1", end.id)
        await tx.execute(
            "insert into endings values ($1, $2, $3)", end.event, f"{end.type} {end.outcome} {end.reason}", status
        )
        if left[0]:
            left[0] -= 1
            raise RuntimeError("the hook failed")

    return app


async def endings(db: Database, event: int, count: int) -> list[tuple[str, str]]:
    async def read() -> list[tuple[str, str]] | None:
        rows = await db.fetch("select ended, status from endings where event = $1", event)
        return [tuple(row) for row in rows] if len(rows) >= count else None

    return await until(read)


async def table(db: Database) -> None:
    await db.execute(
        "create table endings (event bigint, ended text, status text); grant all on endings to onceward_app"
    )


async def test_a_delivery_that_arrives_and_one_that_is_given_up(
    make_bench: MakeBench, db: Database, customer: CustomerEndpoint
) -> None:
    await table(db)
    bench = await make_bench(app=hooked())
    await bench.register(customer.hook_url, retry_waits_s=[1])
    await bench.start_worker()
    good = await bench.publish()
    assert await endings(db, good.id, 1) == [("order.paid success None", "success")]
    customer.always = 404
    bad = await bench.publish()
    await until(lambda: attempted(db, bad.id))
    await bench.make_due()
    [(ended, status)] = await endings(db, bad.id, 1)
    assert ended.startswith("order.paid failed"), ended
    assert status == "failed"
    customer.always = None
    [delivery] = await db.fetch("select id from onceward.deliveries where caused_by = $1", bad.id)
    await resends.resend_one(db, None, delivery["id"], actor="test")
    bench.engine.waker.wake("deliveries-retry")
    assert (await endings(db, bad.id, 2))[1] == ("order.paid success None", "success")


async def attempted(db: Database, event: int) -> bool:
    return await db.fetchval("select attempts > 0 from onceward.deliveries where caused_by = $1", event)


async def test_a_hook_that_fails_runs_again_as_a_job_and_the_outcome_is_kept(
    make_bench: MakeBench, db: Database, customer: CustomerEndpoint
) -> None:
    await table(db)
    bench = await make_bench(app=hooked(failures=1))
    await bench.register(customer.hook_url)
    await bench.start_worker()
    event = await bench.publish()
    assert await endings(db, event.id, 1) == [("order.paid success None", "success")]
    assert len(customer.received) == 1
