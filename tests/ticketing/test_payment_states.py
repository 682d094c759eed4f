"""What the payment services say besides "paid": declined, refunded before it was recorded, paid on a page that was replaced."""

from __future__ import annotations

from typing import Any

import pytest

from onceward_apps.ticketing import checkout_payments, schedules
from onceward_apps.ticketing.handlers import reconcile
from tests.ticketing.office import Office, Show
from tests.ticketing.test_refund_states import sell_by_paypal
from tests.ticketing.test_refunds_elsewhere import assert_the_books_are_right, paypal_webhook


async def opened(office: Office, provider: Any = "paypal") -> tuple[Show, Any, str]:
    """A checkout with a payment page; returns the page's id at the service."""
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1", "Stalls A2")
    return show, checkout, await open_page(office, show, checkout, provider)


async def open_page(office: Office, show: Show, checkout: Any, provider: Any) -> str:
    await checkout_payments.open_payment(office.engine, show.organization, checkout["id"], provider)
    return await office.db.fetchval("select provider_session from ticketing.checkouts where id = $1", checkout["id"])


async def reconciled(office: Office, show: Show, checkout: Any) -> None:
    async with office.engine.transaction(organization=show.organization) as tx:
        await tx.enqueue(reconcile, checkout_id=checkout["id"])
    await office.drain()


async def dead_letters(office: Office) -> int:
    return await office.db.fetchval("select count(*) from onceward.work where dead_reason is not null")


@pytest.mark.parametrize("part", [False, True])
async def test_the_reconciler_records_a_capture_that_was_refunded_before_it_was_heard_of(
    office: Office, part: bool
) -> None:
    show, checkout, order_id = await opened(office)
    office.paypal.approve(order_id)
    await (await office.app.services.paypal(None)).capture_order(order_id, key="elsewhere")
    [capture] = office.paypal.books.captures.values()
    office.paypal.refund(capture["id"], "10.00" if part else None)
    assert capture["status"] == ("PARTIALLY_REFUNDED" if part else "REFUNDED")
    await reconciled(office, show, checkout)
    assert await office.status(checkout) == ("completed" if part else "refunded")
    assert len(await office.tickets(checkout)) == (2 if part else 0)
    await assert_the_books_are_right((office, show, checkout), cash=checkout["total_cents"] - 1000 if part else 0)


@pytest.mark.parametrize("status", ["DECLINED", "FAILED", "INSTRUMENT_DECLINED"])
async def test_a_declined_capture_fails_the_checkout_and_is_not_a_dead_letter(office: Office, status: str) -> None:
    show, checkout, order_id = await opened(office)
    office.paypal.approve(order_id)
    office.paypal.books.next_capture_statuses.append(status)
    await reconciled(office, show, checkout)
    assert await office.status(checkout) == "failed"
    assert await dead_letters(office) == 0
    assert await office.db.fetchval("select count(*) from ticketing.payments") == 0
    await reconciled(office, show, checkout)  # asked again, it is declined again or taken; never a dead letter
    assert await dead_letters(office) == 0


@pytest.mark.parametrize("event", ["PAYMENT.CAPTURE.DECLINED", "PAYMENT.CAPTURE.DENIED"])
async def test_the_webhook_of_a_declined_capture_fails_the_checkout(office: Office, event: str) -> None:
    await office.source("paypal", **office.paypal.source_options)
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1")
    amount = {"currency_code": "EUR", "value": "10.00"}
    capture = {"id": "CAP9", "status": "DECLINED", "amount": amount, "custom_id": str(checkout["id"])}
    assert (await paypal_webhook(office, event, capture)).status == 200
    assert await office.status(checkout) == "failed"


async def end_older(office: Office) -> None:
    for due in await office.db.fetch(schedules.OLDER_PAGES):
        async with office.engine.transaction(organization=due["organization_id"]) as tx:
            await schedules.end_older_page(due, tx)
    await office.drain()


async def replace_page(office: Office, checkout: Any) -> None:
    """Another page took the place of the first, whichever way."""
    await office.db.execute(
        "update ticketing.checkouts set provider = 'paypal', provider_session = 'ANOTHER' where id = $1", checkout["id"]
    )


async def test_a_payment_on_a_page_that_was_replaced_is_found_without_a_webhook(office: Office) -> None:
    show, checkout, session = await opened(office, "stripe")
    await replace_page(office, checkout)
    office.stripe.pay(session)
    await end_older(office)
    assert await office.status(checkout) == "completed"
    await assert_the_books_are_right((office, show, checkout), cash=checkout["total_cents"])
    assert await office.db.fetch(schedules.OLDER_PAGES) == []


async def test_a_page_that_was_replaced_is_closed(office: Office) -> None:
    _, checkout, session = await opened(office, "stripe")
    await replace_page(office, checkout)
    await end_older(office)
    assert office.stripe.books.sessions[session]["status"] == "expired"
    await end_older(office)
    assert await office.db.fetch(schedules.OLDER_PAGES) == []
    assert await office.status(checkout) == "started"


async def test_an_order_approved_on_a_page_that_was_replaced_is_captured(office: Office) -> None:
    await office.source("paypal", **office.paypal.source_options)
    _, checkout, order_id = await opened(office)
    await replace_page(office, checkout)
    order = office.paypal.approve(order_id)
    assert (await paypal_webhook(office, "CHECKOUT.ORDER.APPROVED", order)).status == 200
    await office.drain()
    assert await office.status(checkout) == "completed"


async def test_a_payment_is_recorded_once_or_not_at_all(office: Office) -> None:
    """A capture that is recorded for one checkout cannot sell another, nor be taken for it."""
    sold, capture = await sell_by_paypal(office)
    other = await office.checkout(sold[1], "Stalls B1", "Stalls B2")
    forged = {**capture, "custom_id": str(other["id"])}
    assert (await paypal_webhook(office, "PAYMENT.CAPTURE.COMPLETED", forged)).status >= 400
    assert await office.tickets(other) == []
    # The same from the view of another organization, which cannot see that it is recorded.
    show = await office.show(slug="other")
    foreign = await office.checkout(show, "Stalls A1", "Stalls A2")
    forged = {**capture, "custom_id": str(foreign["id"])}
    assert (await paypal_webhook(office, "PAYMENT.CAPTURE.COMPLETED", forged)).status >= 400
    assert await office.tickets(foreign) == []
    assert await office.status(foreign) == "started"
    await assert_the_books_are_right(sold, cash=sold[2]["total_cents"])
