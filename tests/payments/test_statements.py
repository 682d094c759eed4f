"""How many round trips money takes: a sale must not become slower by and by."""

from __future__ import annotations

from typing import Any

from onceward.payments.reports import Origin, apply_fact
from tests.payments.conftest import Till
from tests.statements import counted


async def test_a_sale_takes_four_statements_and_a_report_that_is_known_three(till: Till) -> None:
    till.world.fees = True
    await till.buy("0")  # accounts of the ledger are opened once
    page = await till.open("1")
    till.world.pay(await till.page(page))
    report = till.world.log[-1]
    async with till.engine.transaction() as tx:
        with counted() as sent:
            assert await apply_fact(tx, Origin("shop-acme"), report) == "paid"
    assert len(sent) == 4, "\n".join(sent)  # find, lock, receive, decide; the app's own come in between
    async with till.engine.transaction() as tx:
        with counted() as sent:
            assert await apply_fact(tx, Origin("shop-acme"), report) == "known"
    assert len(sent) == 3, "\n".join(sent)
    assert await till.cash() == till.world.balance()


async def test_money_back_takes_few_statements(till: Till) -> None:
    payment_id, charge = await till.buy()
    till.world.refund_by_hand(charge, 600)
    async with till.engine.transaction() as tx:
        with counted() as sent:
            assert await apply_fact(tx, Origin("shop-acme"), till.world.log[-1]) == "done at the service"
    assert len(sent) <= 16, "\n".join(sent)
    assert (await till.payment(payment_id)).refunded == 600


async def test_a_dispute_that_comes_after_a_debit_began_and_before_its_money_is_kept(till: Till) -> None:
    page = await till.open()
    reference = await till.page(page)
    till.world.pay(reference, slow=True)
    till.world.debit(reference, success=True)
    charge = till.world.pages[reference]["charge"]
    till.world.dispute(charge, amount=4000)
    processing, paid, dispute = till.world.log[-3:]
    # The report of the debit has named the charge, so the dispute finds its payment, which has no money yet.
    named = type(processing)(**{**_values(processing), "charge": charge, "names": (f"alias_{charge}",)})
    assert await till.deliver(named, dispute, paid) == ["processing", "kept", "paid"]
    assert (await till.payment(page.payment_id)).withheld == 4000
    assert await till.cash() == {"EUR": 6600} == till.world.balance()


def _values(report: Any) -> dict[str, Any]:
    return {name: getattr(report, name) for name in report.__slots__}
