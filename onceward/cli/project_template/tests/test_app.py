"""Run with `pytest`. The tests use a real PostgreSQL, which the first test starts."""

from onceward import Engine
from onceward.testing import TestInbox, assert_enqueued, crash_test, drain

from project_name.app import pack

PAYMENT = {"type": "payment.received", "data": {"order": "o-1", "amount": 4200}}


async def test_a_payment_that_is_delivered_twice_creates_one_order(
    onceward_engine: Engine, onceward_inbox: TestInbox
) -> None:
    await onceward_inbox.add_source("checkout", provider="standard")
    for _ in range(2):
        answer = await onceward_inbox.post(PAYMENT, source="checkout", event_id="evt_1")
        assert answer.status == 200
    await drain(onceward_engine, "events")

    await assert_enqueued(onceward_engine, pack, order="o-1")
    assert await onceward_engine.db.fetchval("select count(*) from orders") == 1


async def test_a_crash_at_any_moment_changes_nothing(onceward_engine: Engine) -> None:
    db = onceward_engine.db

    async def arrange() -> None:
        await db.execute("insert into orders (order_id, amount) values ('o-1', 4200)")
        await onceward_engine.enqueue(pack, order="o-1")

    async def observe() -> object:
        return await db.fetchval("select count(*) from orders where packed_at is not null")

    async def reset() -> None:
        await db.execute("truncate orders, onceward.jobs, onceward.work, onceward.attempts, onceward.claims")

    await crash_test(onceward_engine, arrange=arrange, observe=observe, reset=reset)
