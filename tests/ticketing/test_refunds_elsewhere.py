"""Refunds that somebody makes at the payment service: booked once, to the cent, beside our own."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any
from uuid import uuid4

import orjson
import pytest

from onceward_apps.ticketing import after_sale
from onceward_apps.ticketing.model import Policy, revenue_account
from tests.ticketing.office import Office, Show, Told, post
from tests.ticketing.test_edge_cases import paid_at_stripe

Sold = tuple[Office, Show, Any]
POLICIES = [
    Policy(tax_bps=1550, fee_bps=333),
    Policy(tax_bps=1550, fee_bps=333, tax_included=True, fee_paid_by="organizer"),
]


async def sell(office: Office, policy: Policy = POLICIES[0]) -> Sold:
    await office.source()
    show = await office.show(policy=policy)
    checkout = await office.checkout(show, "Stalls A1", "Stalls A2", "Stalls A3")
    assert (await office.pay(checkout, payment_intent=await paid_at_stripe(office, checkout))).status == 200
    await office.drain()
    return office, show, checkout


@pytest.fixture
async def sold(office: Office) -> Sold:
    return await sell(office)


async def payment_of(office: Office) -> str:
    return await office.db.fetchval("select charge from onceward.payments")


async def give_back_at_stripe(office: Office, amount: int) -> dict[str, Any]:
    """What pressing the button in the dashboard does; the webhook that Stripe then sends."""
    _, charged = office.stripe.books.refund({"payment_intent": await payment_of(office), "amount": str(amount)})
    return about(charged)


def about(charged: Any) -> dict[str, Any]:
    copy = orjson.loads(orjson.dumps(charged))
    return {"id": f"evt_{uuid4().hex}", "object": "event", "type": "charge.refunded", "data": {"object": copy}}


async def hear(office: Office, payload: dict[str, Any]) -> None:
    """Stripe tells that something was refunded; a job asks it what."""
    assert (await office.webhook(payload)).status == 200
    await office.drain()


async def refund(sold: Sold, **options: Any) -> Any:
    office, show, checkout = sold
    async with office.engine.transaction(organization=show.organization) as tx:
        made = await after_sale.refund(tx, checkout["id"], reason="asked", actor="test", **options)
        return None if made is None else made.id


async def assert_the_books_are_right(sold: Sold, *, cash: int) -> None:
    office, show, _ = sold
    assert await office.cash(show) == cash
    taken = "select coalesce(sum(received - refunded + settled), 0)::int8 from onceward.payments"
    assert await office.db.fetchval(taken) == cash
    await office.assert_sound()


async def told_of(office: Office) -> list[int]:
    return [row["details"]["amount_cents"] for row in await office.notices() if row["type"] == "REFUNDED_ELSEWHERE"]


@pytest.mark.parametrize("policy", POLICIES)
async def test_all_of_the_money_back_is_booked_and_voids_the_tickets(office: Office, policy: Policy) -> None:
    sold = await sell(office, policy)
    _, show, checkout = sold
    payload = await give_back_at_stripe(office, checkout["total_cents"])
    await hear(office, payload)
    assert await office.tickets(checkout) == []
    assert await office.status(checkout) == "refunded"
    assert await office.db.fetchval("select count(*) from ticketing.seats where status = 'sold'") == 0
    for account in ("cash", revenue_account(show.id), "sales_tax_payable", "platform_fee", "platform_fee_payable"):
        assert await office.balance(show, account) == 0
    await assert_the_books_are_right(sold, cash=0)
    assert await told_of(office) == [checkout["total_cents"]]
    mails = await office.db.fetch("select template from onceward.messages order by id")
    assert [row["template"] for row in mails] == ["order-confirmation", "order-refunded"]
    published = "select count(*) from onceward.published where type = 'checkout.refunded'"
    assert await office.db.fetchval(published) == 1


async def test_a_part_of_the_money_back_is_booked_and_the_tickets_stay_valid(sold: Sold) -> None:
    office, _, checkout = sold
    await hear(office, await give_back_at_stripe(office, 1001))
    await assert_the_books_are_right(sold, cash=checkout["total_cents"] - 1001)
    assert len(await office.tickets(checkout)) == 3
    assert await office.status(checkout) == "completed"
    await hear(office, await give_back_at_stripe(office, checkout["total_cents"] - 1001))
    await assert_the_books_are_right(sold, cash=0)
    assert await office.tickets(checkout) == []


async def test_a_refund_is_booked_once_for_any_number_and_order_of_its_webhooks(sold: Sold) -> None:
    office, _, checkout = sold
    first = await give_back_at_stripe(office, 500)
    second = await give_back_at_stripe(office, 700)
    again = {**second, "id": "evt_another_telling"}
    answers = await asyncio.gather(*(office.webhook(each) for each in (second, first, again, second)))
    assert {each.status for each in answers} == {200}
    await office.drain()
    assert sum(await told_of(office)) == 1200
    await assert_the_books_are_right(sold, cash=checkout["total_cents"] - 1200)


async def test_the_webhook_of_our_own_refund_books_nothing_however_early_it_comes(sold: Sold) -> None:
    office, _, checkout = sold
    [ticket, *_] = await office.tickets(checkout)
    await refund(sold, tickets=[ticket["id"]])
    ours = await office.db.fetchval("select amount from onceward.payment_refunds")
    early = await office.charge(
        checkout, type="charge.refunded", payment_intent=await payment_of(office), amount_refunded=ours
    )
    assert (await office.webhook(early)).status == 200
    await office.drain()
    [charged] = office.stripe.books.charges.values()
    await hear(office, about(charged))
    await assert_the_books_are_right(sold, cash=checkout["total_cents"] - ours)
    assert await told_of(office) == []


async def test_one_at_the_service_and_one_of_ours_are_both_booked(sold: Sold) -> None:
    office, _, checkout = sold
    [ticket, *_] = await office.tickets(checkout)
    payload = await give_back_at_stripe(office, 900)  # less than ours, which is requested before the webhook comes
    await refund(sold, tickets=[ticket["id"]])
    ours = await office.db.fetchval("select amount from onceward.payment_refunds")
    await hear(office, payload)
    [charged] = office.stripe.books.charges.values()
    await hear(office, about(charged))
    await assert_the_books_are_right(sold, cash=checkout["total_cents"] - ours - 900)
    assert await told_of(office) == [900]


async def test_what_was_given_back_at_the_service_is_not_given_back_again(sold: Sold) -> None:
    """Refund all tickets after a part went back at the service: the rest goes back, and Stripe does not refuse it."""
    office, _, checkout = sold
    await hear(office, await give_back_at_stripe(office, 12345))
    for ticket in await office.tickets(checkout):
        await refund(sold, tickets=[ticket["id"]])
        await office.drain()
    assert sum(each["amount"] for each in office.stripe.books.refunds.values()) == checkout["total_cents"]
    assert (
        await office.db.fetchval(
            "select count(*) from onceward.payment_refunds where status not in ('done', 'settled')"
        )
        == 0
    )
    assert await office.status(checkout) == "refunded"
    await assert_the_books_are_right(sold, cash=0)


async def test_a_refund_of_ours_that_was_refused_is_done_when_somebody_makes_it_there(sold: Sold) -> None:
    office, _, checkout = sold
    office.stripe.fail_next(status=400)
    await refund(sold)
    await office.drain()
    assert await office.db.fetchval("select status from onceward.payment_refunds") == "failed"
    await hear(office, await give_back_at_stripe(office, 4000))
    await assert_the_books_are_right(sold, cash=checkout["total_cents"] - 4000)
    await hear(office, await give_back_at_stripe(office, checkout["total_cents"] - 4000))
    assert (
        await office.db.fetchval(
            "select count(*) from onceward.payment_refunds where status not in ('done', 'settled')"
        )
        == 0
    )
    await assert_the_books_are_right(sold, cash=0)


async def test_a_refund_of_ours_that_came_too_late_reveals_the_one_made_there(sold: Sold) -> None:
    """Both were for everything: the webhook finds ours under way, then ours is refused because nothing is left."""
    office, _, checkout = sold
    await refund(sold)
    await hear(office, await give_back_at_stripe(office, checkout["total_cents"]))
    assert sorted(row["status"] for row in await office.refunds()) == ["done", "settled"]
    assert len(office.stripe.books.refunds) == 1
    assert "REFUND_FAILED" not in [row["type"] for row in await office.notices()]
    await assert_the_books_are_right(sold, cash=0)


async def test_a_refund_that_is_reported_before_its_payment_is_booked_with_it(office: Office) -> None:
    await office.source()
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1")
    paid = await paid_at_stripe(office, checkout)
    await office.page(checkout)
    made, _ = office.stripe.books.refund({"payment_intent": paid})
    early = {"id": "evt_early", "object": "event", "type": "refund.created", "data": {"object": dict(made)}}
    assert (await office.webhook(early)).status == 200
    assert (await office.pay(checkout, payment_intent=paid)).status == 200
    assert await office.status(checkout) == "refunded"
    await assert_the_books_are_right((office, show, checkout), cash=0)


async def test_a_source_of_another_organization_cannot_book_a_refund(sold: Sold) -> None:
    office, show, checkout = sold
    other = await office.show(slug="other")
    await office.db.execute("update onceward.sources set organization_id = $1, changed_at = clock_timestamp()"
                            " where name = 'payments-stripe'", other.organization)  # fmt: skip
    await office.inbox.catalog.refresh()
    await hear(office, await give_back_at_stripe(office, checkout["total_cents"]))
    assert await office.balance(show, "cash") == checkout["total_cents"]
    assert len(await office.tickets(checkout)) == 3


# -- PayPal, which tells of each refund by its id ----------------------------------------------------------------------


async def paypal_webhook(office: Office, type: str, resource: Any) -> Told:
    body = orjson.dumps(
        {"id": f"WH-{uuid4().hex}", "event_type": type, "resource_type": "capture", "resource": resource}
    )
    headers = office.paypal.sign(body)
    return await post(office.inbox, "/webhooks/payments/paypal", body, {**headers, "content-length": str(len(body))})


@pytest.fixture
async def sold_by_paypal(office: Office) -> Sold:
    await office.source("paypal", **office.paypal.source_options)
    show = await office.show(policy=POLICIES[0])
    checkout = await office.checkout(show, "Stalls A1", "Stalls A2")
    amount = {"currency_code": "EUR", "value": str(Decimal(checkout["total_cents"]) / 100)}
    payment_id = await office.page(checkout, "paypal")
    capture = {"id": "CAP1", "status": "COMPLETED", "amount": amount, "custom_id": str(payment_id)}
    office.paypal.books.captures["CAP1"] = dict(capture)
    assert (await paypal_webhook(office, "PAYMENT.CAPTURE.COMPLETED", capture)).status == 200
    await office.drain()
    return office, show, checkout


def made_at_paypal(amount: int, *, id: str = "RF1", custom_id: str | None = None) -> dict[str, Any]:
    return {
        "id": id,
        "status": "COMPLETED",
        "amount": {"currency_code": "EUR", "value": f"{Decimal(amount) / 100:.2f}"},
        "custom_id": custom_id,
        "links": [{"rel": "up", "href": "https://api.paypal.example/v2/payments/captures/CAP1"}],
    }


async def test_a_refund_made_at_paypal_is_booked_once(sold_by_paypal: Sold) -> None:
    office, _, checkout = sold_by_paypal
    for _ in range(2):  # delivered twice, with different event ids
        assert (await paypal_webhook(office, "PAYMENT.CAPTURE.REFUNDED", made_at_paypal(700))).status == 200
    await assert_the_books_are_right(sold_by_paypal, cash=checkout["total_cents"] - 700)
    rest = made_at_paypal(checkout["total_cents"] - 700, id="RF2")
    assert (await paypal_webhook(office, "PAYMENT.CAPTURE.REFUNDED", rest)).status == 200
    await assert_the_books_are_right(sold_by_paypal, cash=0)
    assert await office.tickets(checkout) == []


async def test_the_webhook_of_our_own_refund_at_paypal_confirms_it(sold_by_paypal: Sold) -> None:
    office, _, checkout = sold_by_paypal
    refund_id = await refund(sold_by_paypal)
    early = made_at_paypal(checkout["total_cents"], custom_id=f"refund:{refund_id}:1")
    assert (await paypal_webhook(office, "PAYMENT.CAPTURE.REFUNDED", early)).status == 200
    assert await office.db.fetchval("select status from onceward.payment_refunds") == "done"
    await office.drain()
    await assert_the_books_are_right(sold_by_paypal, cash=0)
    assert await told_of(office) == []


async def test_a_refund_at_paypal_beside_one_of_ours_takes_the_money_once(sold_by_paypal: Sold) -> None:
    office, _, _ = sold_by_paypal
    there = office.paypal.refund("CAP1")
    await refund(sold_by_paypal)
    assert (await paypal_webhook(office, "PAYMENT.CAPTURE.REFUNDED", there)).status == 200
    await office.drain()
    assert sorted(row["status"] for row in await office.refunds()) == ["done", "settled"]
    await assert_the_books_are_right(sold_by_paypal, cash=0)
