"""The tests of the shop. Run them with `pytest` in this folder."""

from shop import pack

from onceward import Engine
from onceward.testing import (
    FrozenClock,
    TestInbox,
    assert_broadcast,
    assert_enqueued,
    assert_not_enqueued,
    assert_published,
    assert_sent,
    crash_test,
    drain,
    perform,
)

PAYMENT = {"type": "payment.received", "data": {"order": "o-1", "amount": 4200, "email": "ada@example.com"}}


async def pay(inbox: TestInbox) -> None:
    answer = await inbox.post(PAYMENT, source="shop-payments", event_id="evt_1")
    assert answer.status == 200


async def test_a_payment_creates_an_order(onceward_engine: Engine, onceward_inbox: TestInbox) -> None:
    await onceward_inbox.add_source("shop-payments", provider="standard")
    await pay(onceward_inbox)
    await drain(onceward_engine, "events")

    await assert_enqueued(onceward_engine, pack, order="o-1")
    await assert_sent(onceward_engine, "order-received", to="ada@example.com", data={"order": "o-1"}, count=1)


async def test_the_second_delivery_of_a_payment_causes_nothing(
    onceward_engine: Engine, onceward_inbox: TestInbox
) -> None:
    await onceward_inbox.add_source("shop-payments", provider="standard")
    await pay(onceward_inbox)
    await pay(onceward_inbox)
    await drain(onceward_engine)

    assert await onceward_engine.db.fetchval("select count(*) from onceward.webhook_events") == 1
    await assert_sent(onceward_engine, "order-received", count=1)
    await assert_published(onceward_engine, "order.packed", data={"order": "o-1"}, count=1)


async def test_packing_publishes_an_event_and_tells_the_browser(onceward_engine: Engine) -> None:
    assert await perform(onceward_engine, pack, order="o-7") == "o-7"

    await assert_published(onceward_engine, "order.packed", key="packed:o-7")
    await assert_broadcast(onceward_engine, "orders/o-7", payload={"state": "packed"})
    await assert_not_enqueued(onceward_engine, pack)


async def test_an_order_is_packed_a_day_later(onceward_engine: Engine, onceward_clock: FrozenClock) -> None:
    await onceward_engine.enqueue(pack.schedule_in(days=1), order="o-1")
    assert await drain(onceward_engine) == 0

    await onceward_clock.advance(days=1)
    assert await drain(onceward_engine) == 1


async def test_a_crash_at_any_moment_changes_nothing(onceward_engine: Engine) -> None:
    async def arrange() -> None:
        await onceward_engine.db.execute("insert into shop.orders (order_id, amount) values ('o-1', 4200)")
        await onceward_engine.enqueue(pack, order="o-1")

    async def observe() -> object:
        packed = await onceward_engine.db.fetchval("select count(*) from shop.orders where packed_at is not null")
        return packed, await onceward_engine.db.fetchval("select count(*) from onceward.published")

    async def reset() -> None:
        await onceward_engine.db.execute(
            "truncate shop.orders, onceward.published, onceward.jobs, onceward.work, onceward.attempts, "
            "onceward.claims cascade"
        )

    await crash_test(onceward_engine, arrange=arrange, observe=observe, reset=reset)
