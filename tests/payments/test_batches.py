"""Many refunds at once: at a rate, each once, with a report; one that is not possible does not stop the others."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from onceward.payments.batches import pace
from onceward.payments.due import enqueue_due
from onceward.payments.errors import NotFound, NotRefundable
from onceward.payments.job_queue import BATCH
from tests.payments.acme import DOWN, REFUSED
from tests.payments.conftest import Till

DUE = "update onceward.work set sort_at = onceward.now() where lease is null and queue = 'payments'"
NOTICES = "select severity, title, details from onceward.notices where type = 'REFUNDS_DONE'"


async def go_on(till: Till, rounds: int = 6) -> None:
    for _ in range(rounds):
        async with till.db.transaction(role="engine") as tx:
            await tx.execute(DUE)
        await till.work()


async def request(till: Till, payments: list[UUID], **options: Any) -> Any:
    async with till.tx() as tx:
        return await tx.payments.refund_many(payments, reason="the event is cancelled", **options)


async def batch(till: Till, id: UUID, **options: Any) -> Any:
    async with till.tx() as tx:
        return await tx.payments.refund_batch(id, **options)


@pytest.mark.parametrize(
    ("per_minute", "expected"), [(1, (1, 60.0)), (12, (1, 5.0)), (60, (5, 5.0)), (6000, (500, 5.0)), (7, (1, 60 / 7))]
)
def test_the_rate_is_a_portion_and_a_pause(per_minute: int, expected: tuple[int, float]) -> None:
    assert pace(per_minute) == expected


async def test_many_payments_are_refunded_at_a_rate_each_once_and_reported(till: Till) -> None:
    bought = [await till.buy(str(n), amount=1000 + n) for n in range(7)]
    ids = [payment for payment, _ in bought]
    till.world.refund_by_hand(bought[6][1], 1006)  # nothing is left of this one
    await till.deliver()
    made = await request(till, [*ids, ids[0]], per_minute=24, key="cancelled")
    assert (made.state, made.total, made.asked) == ("running", 7, 0)
    assert (await request(till, ids, key="cancelled")).id == made.id
    await till.work()
    assert (await batch(till, made.id)).asked == 2  # 24 a minute are 2 in 5 seconds
    till.world.failures = [DOWN]
    await go_on(till)
    found = await batch(till, made.id)
    assert (found.state, found.asked, found.refused, dict(found.refunds)) == ("done", 6, 1, {"done": 6})
    assert [each.amount for each in found.paid_back] == [6015]
    assert found.reasons == {ids[6]: "nothing is left to refund"}
    made_there = sorted(each["amount"] for each in till.world.refunds.values() if each["key"])
    assert made_there == [1000 + n for n in range(6)]
    assert await till.cash() == {"EUR": 0} == till.world.balance()
    async with till.tx() as tx:
        [notice] = await tx.fetch(NOTICES)
    assert (notice["severity"], notice["details"]["not possible"]) == ("warn", 1)


async def test_a_batch_that_is_stopped_asks_for_no_further_refund(till: Till) -> None:
    ids = [(await till.buy(str(n)))[0] for n in range(3)]
    made = await request(till, ids, percent=50, per_minute=1)
    await till.work()
    assert (await batch(till, made.id, stop=True)).state == "stopped"
    await go_on(till)
    assert [each["amount"] for each in till.world.refunds.values()] == [5300]
    assert (await batch(till, made.id)).asked == 1


async def test_a_batch_whose_job_died_goes_on_and_a_refused_refund_is_in_the_report(till: Till) -> None:
    payment, _ = await till.buy()
    made = await request(till, [payment])
    async with till.db.transaction(role="engine") as tx:
        await tx.execute("delete from onceward.work where task = $1", BATCH)
        await tx.execute("delete from onceward.unique_keys where key like 'batch:%'")
        await tx.execute("update onceward.payment_refund_batches set look_at = onceward.now()")
        await tx.execute("update onceward.payment_accounts set list_at = 'infinity'")
    till.world.failures = [REFUSED]
    await enqueue_due(till.db, till.engine.waker)
    await go_on(till)
    found = await batch(till, made.id)
    assert (found.state, dict(found.refunds)) == ("done", {"failed": 1})


async def test_what_cannot_be_a_batch_is_refused_and_nothing_is_requested(till: Till) -> None:
    payment, _ = await till.buy()
    unknown = uuid4()
    with pytest.raises(NotFound, match=str(unknown)):
        await request(till, [payment, unknown])
    for values, reason in (
        ({"payments": []}, "1 to 100000 payments"),
        ({"payments": [payment], "per_minute": 0}, "per_minute is 0"),
        ({"payments": [payment], "percent": 101}, "percent is 101"),
    ):
        with pytest.raises(NotRefundable, match=reason):
            await request(till, **values)  # pyright: ignore[reportArgumentType]
    assert till.world.refunds == {}
