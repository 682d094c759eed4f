"""Refunds and disputes: booked once, in any order, and every one has an end."""

from __future__ import annotations

from itertools import permutations

import pytest

from onceward.money import Money
from onceward.payments import Share
from onceward.payments.due import enqueue_due
from onceward.payments.errors import NotRefundable
from onceward.payments.metrics import observe
from onceward.services.outcome import Refused
from onceward.telemetry.metrics import REGISTRY
from tests.payments.acme import LOST, REFUSED
from tests.payments.conftest import Till


async def refund(till: Till, payment_id: object, amount: int | None = None, **options: object) -> object:
    async with till.tx() as tx:
        money = None if amount is None else Money(amount, "EUR")
        found = await tx.payments.refund(payment_id, amount=money, **{"reason": "test", **options})
    return None if found is None else found.id


async def test_a_refund_whose_answer_is_lost_is_made_and_booked_once(till: Till) -> None:
    payment_id, charge = await till.buy()
    till.world.failures = [LOST]
    await refund(till, payment_id, 5300)
    await till.work()
    await till.deliver()  # the webhook comes before the call is repeated
    async with till.db.transaction(role="engine") as tx:
        await tx.execute("update onceward.work set sort_at = onceward.now() where task = 'payments.refund'")
    await till.work()
    assert till.world.refunded(charge) == 5300
    assert till.shop.words == ["paid", "refund done"]
    assert await till.cash() == {"EUR": 5300} == till.world.balance()
    assert (await till.payment(payment_id)).status == "partly_refunded"


async def test_the_rest_is_what_remains_at_the_service(till: Till) -> None:
    payment_id, charge = await till.buy()
    await refund(till, payment_id)
    till.world.refund_by_hand(charge, 1000)  # between the request and the call
    await till.work()
    await till.deliver()
    assert till.shop.words.count("refund done") == 2
    assert await till.cash() == {"EUR": 0} == till.world.balance()
    assert (await till.payment(payment_id)).status == "refunded"


async def test_a_refund_that_the_bank_returns_is_owed_repeated_and_paid_once(till: Till) -> None:
    payment_id, _ = await till.buy()
    refund_id = await refund(till, payment_id)
    await till.work()
    [reference] = till.world.refunds
    till.world.move_refund(reference, "failed")
    await till.deliver()
    assert await till.balance("refunds_payable") == 10600
    assert await till.cash() == {"EUR": 10600} == till.world.balance()
    async with till.tx() as tx:
        await tx.payments.repeat(refund_id)
    await till.work()
    await till.deliver(*till.world.log)  # everything again, old reports included
    assert await till.cash() == {"EUR": 0} == till.world.balance()
    assert (await till.balance("refunds_payable"), await till.balance("sales")) == (0, 0)
    assert till.shop.words == ["paid", "refund done", "refund failed", "refund done"]


async def test_a_pending_refund_ends_when_the_service_is_asked(till: Till) -> None:
    payment_id, _ = await till.buy()
    till.world.pending_refunds = True
    await refund(till, payment_id)
    await till.work()
    [reference] = till.world.refunds
    till.world.refunds[reference]["state"] = "succeeded"  # and no webhook says so
    async with till.db.transaction(role="engine") as tx:
        await tx.execute("update onceward.payment_refunds set ask_at = onceward.now()")
    await enqueue_due(till.db, till.engine.waker)
    await till.work()
    assert till.shop.words == ["paid", "refund done"]


async def test_a_refund_whose_job_died_is_called_again(till: Till) -> None:
    payment_id, _ = await till.buy()
    refund_id = await refund(till, payment_id)
    async with till.db.transaction(role="engine") as tx:
        await tx.execute("delete from onceward.work where task = 'payments.refund'")
        await tx.execute("delete from onceward.unique_keys where key like 'refund:%'")
    async with till.tx() as tx:
        await tx.payments.repeat(refund_id)
    await till.work()
    assert till.shop.words == ["paid", "refund done"]


async def test_a_settled_refund_is_settled_for_good(till: Till) -> None:
    payment_id, charge = await till.buy()
    dispute = till.world.dispute(charge)
    refund_id = None
    till.world.failures = [REFUSED]
    refund_id = await refund(till, payment_id)
    await till.work()
    await till.deliver()
    async with till.tx() as tx:
        await tx.payments.settle(refund_id, note="bank transfer")
    till.world.move_dispute(dispute, "won")
    await till.deliver()
    await till.work()
    assert till.world.refunds == {}
    assert till.shop.words[-1] == "dispute won"
    assert await till.cash() == {"EUR": 10600} == till.world.balance()
    assert await till.balance("bank") == -10600
    with pytest.raises(NotRefundable, match="settled"):
        async with till.tx() as tx:
            await tx.payments.repeat(refund_id)


@pytest.mark.parametrize("answered_late", [False, True])
async def test_a_refund_that_was_refused_for_a_dispute_ends_with_the_dispute(till: Till, answered_late: bool) -> None:
    """The bank gives the buyer the money: nobody has to settle the refund, which would book it a second time."""
    payment_id, charge = await till.buy()
    dispute = till.world.dispute(charge)
    refund_id = await refund(till, payment_id)
    if not answered_late:
        await till.work()
        assert till.shop.words == ["paid", "dispute open", "refund failed"]
    till.world.move_dispute(dispute, "lost")
    await till.deliver()
    await till.work()
    async with till.tx() as tx:
        [row] = await tx.fetch("select status, booked, why from onceward.payment_refunds")
    assert tuple(row.values()) == ("settled", 0, "lost")
    with pytest.raises(NotRefundable, match="is settled"):
        async with till.tx() as tx:
            await tx.payments.settle(refund_id, note="bank transfer")
    assert await till.cash() == {"EUR": 0} == till.world.balance()
    assert (await till.balance("bank"), await till.balance("dispute_losses")) == (0, 10600)
    till.world.move_dispute(dispute, "won")  # the bank thinks again
    await till.deliver()
    await till.work()
    assert till.world.refunded(charge) == 10600
    assert await till.cash() == {"EUR": 0} == till.world.balance()
    assert await till.balance("dispute_losses") == 0
    assert (await till.payment(payment_id)).status == "refunded"


async def test_an_old_report_of_a_refund_that_came_back_and_was_settled_changes_nothing(till: Till) -> None:
    payment_id, _ = await till.buy()
    refund_id = await refund(till, payment_id)
    await till.work()
    till.world.move_refund(next(iter(till.world.refunds)), "failed")
    succeeded, failed = till.world.log[-2:]
    await till.deliver(failed)
    async with till.tx() as tx:
        await tx.payments.settle(refund_id, note="in cash")
    assert await till.deliver(succeeded, failed) == ["known", "known"]
    assert await till.cash() == {"EUR": 10600} == till.world.balance()


@pytest.mark.parametrize("end", ["failed", "succeeded"])
async def test_a_pending_refund_can_be_settled_and_what_the_service_does_later_is_booked(till: Till, end: str) -> None:
    payment_id, charge = await till.buy()
    till.world.pending_refunds = True
    refund_id = await refund(till, payment_id, 5300)
    await till.work()
    async with till.tx() as tx:
        settled = await tx.payments.settle(refund_id, note="bank transfer")
    assert (settled.status, await till.cash()) == ("settled", {"EUR": 10600})
    [reference] = till.world.refunds
    till.world.move_refund(reference, end)
    await till.deliver()
    await till.deliver(*till.world.log)
    paid_twice = end == "succeeded"
    assert till.world.refunded(charge) == (5300 if paid_twice else 0)
    assert await till.cash() == {"EUR": 5300 if paid_twice else 10600} == till.world.balance()
    assert (await till.payment(payment_id)).refunded == (10600 if paid_twice else 5300)
    async with till.tx() as tx:
        kinds = await tx.fetch("select type from onceward.notices where type = 'REFUND_FAILED'")
    assert len(kinds) == (1 if paid_twice else 0)


async def test_a_refund_that_a_dispute_forbids_starts_again_when_it_is_won(till: Till) -> None:
    payment_id, charge = await till.buy()
    refund_id = await refund(till, payment_id)
    dispute = till.world.dispute(charge)
    await till.work()
    assert till.shop.words == ["paid", "dispute open", "refund failed"]
    till.world.move_dispute(dispute, "won")
    await till.deliver()
    await till.work()
    assert till.shop.words[-2:] == ["dispute won", "refund done"]
    assert await till.cash() == {"EUR": 0} == till.world.balance()
    assert refund_id is not None


@pytest.mark.parametrize("end", ["won", "lost"])
async def test_a_refund_and_a_dispute_of_the_same_money_are_booked_once_in_any_order(till: Till, end: str) -> None:
    for number, order in enumerate(permutations(range(4))):
        payment_id, charge = await till.buy(str(number))
        before = len(till.world.log)
        dispute = till.world.dispute(charge, inquiry=True)
        till.world.refund_by_hand(charge, 4000)
        till.world.move_dispute(dispute, "open")
        till.world.move_dispute(dispute, end)
        facts = till.world.log[before:]
        await till.deliver(*[facts[each] for each in order], *facts)
        assert await till.cash() == till.world.balance(), order
        payment = await till.payment(payment_id)
        assert payment.withheld == (6600 if end == "lost" else 0), order
    assert await till.balance("disputed_payments") == 0
    assert await till.balance("dispute_losses") == (24 * 6600 if end == "lost" else 0)


async def test_reports_that_come_before_their_payment_are_kept(till: Till) -> None:
    page = await till.open()
    charge = till.world.pay(await till.page(page))
    till.world.refund_by_hand(charge, 600)
    till.world.dispute(charge, amount=1000)
    paid, refunded, disputed = till.world.log[-3:]
    assert await till.deliver(disputed, refunded) == ["foreign", "foreign"]
    await till.deliver(paid)
    assert await till.cash() == {"EUR": 9000} == till.world.balance()
    assert (await till.payment(page.payment_id)).status == "disputed"


async def test_percent_is_an_amount_that_the_service_takes(till: Till) -> None:
    payment_id, charge = await till.buy(amount=10010, currency="KWD")
    async with till.tx() as tx:
        found = await tx.payments.refund(payment_id, percent=33, reason="late")
    assert found is not None
    assert found.amount == Money(3300, "KWD")
    await till.work()
    assert till.world.refunded(charge) == 3300


async def test_the_app_says_whose_share_is_refunded(till: Till) -> None:
    payment_id, _ = await till.buy()
    await refund(till, payment_id, 1000, shares=[Share("sales", 1000)], key="line 1")
    await refund(till, payment_id, 1000, shares=[Share("sales", 1000)], key="line 1")
    await till.work()
    assert (await till.balance("sales"), await till.balance("tax")) == (7834, 1766)


async def test_more_than_is_left_is_refused(till: Till) -> None:
    payment_id, _ = await till.buy()
    await refund(till, payment_id, 10000)
    with pytest.raises(NotRefundable, match="between 1 and 600"):
        await refund(till, payment_id, 601)
    await refund(till, payment_id, 600)
    assert await refund(till, payment_id) is None


async def test_credentials_that_are_refused_wait_for_an_operator(till: Till) -> None:
    payment_id, _ = await till.buy()
    till.world.failures = [Refused("HTTP 401", permanent=False, account=True)]
    await refund(till, payment_id)
    await till.work()
    async with till.tx() as tx:
        [found] = await tx.payments.refunds(payment_id)
    assert found.status == "sent"
    async with till.db.transaction(role="engine") as tx:
        await tx.execute("update onceward.payment_refunds set created_at = created_at - interval '2 days'")
    labels = {"service": "acmepay", "state": "sent"}
    assert await observe(till.db) == 1
    assert REGISTRY.get_sample_value("onceward_refunds_open", labels) == 1
    assert REGISTRY.get_sample_value("onceward_refunds_oldest_open_seconds", labels) == pytest.approx(172800, rel=0.1)
