"""From price to page, ledger, refund and receipt, in currencies of every kind. `-m slow` sells in all of them."""

from __future__ import annotations

import io
from decimal import Decimal
from typing import Any

import pytest
from pypdf import PdfReader

from onceward.integrations.paypal import to_minor
from onceward.integrations.stripe import from_stripe
from onceward.money import exponent
from onceward_apps.ticketing import after_sale, checkout_payments, documents
from onceward_apps.ticketing.currencies import PAYPAL, STRIPE, is_taken_by, step
from onceward_apps.ticketing.errors import Invalid
from onceward_apps.ticketing.event_setup import Section
from onceward_apps.ticketing.model import Policy
from onceward_apps.ticketing.store import views
from tests.ticketing.office import Office

ONE_OF_A_KIND = ("EUR", "JPY", "ISK", "UGX", "KWD", "HUF", "TWD", "MGA", "RSD")
POLICY = Policy(fee_bps=333, tax_bps=777)


async def sell_and_refund(office: Office, currency: str, provider: Any) -> None:
    """Sell two tickets and give one of them back; every amount on the way is the same one."""
    price = 1237 * step(currency)
    hall = Section(name="Hall", price_cents=price, rows={"A": 2})
    slug = f"{currency}-{provider}".lower()  # an organization and books of its own
    show = await office.show(currency=currency, policy=POLICY, sections=(hall,), slug=slug)
    checkout = await office.checkout(show, "Hall A1", "Hall A2")
    await checkout_payments.open_payment(office.engine, show.organization, checkout["id"], provider)
    assert charged(office, provider) == checkout["total_cents"]
    page = await office.db.fetchval("select page from onceward.payments where subject_id = $1", str(checkout["id"]))
    if provider == "stripe":
        office.stripe.pay(page)
    else:
        office.paypal.approve(page)
    async with office.engine.transaction(organization=show.organization) as tx:
        await checkout_payments.look_up(tx, checkout["id"])
    await office.drain()
    assert await office.cash(show) == checkout["total_cents"]
    one, _ = await office.tickets(checkout)
    async with office.engine.transaction(organization=show.organization) as tx:
        await after_sale.refund(tx, checkout["id"], tickets=[one["id"]], reason="test", actor="test")
    await office.drain()
    [refund] = await office.refunds(checkout)
    assert refund["status"] == "done"
    assert given_back(office, provider, refund["reference"], currency) == refund["amount"]
    assert await office.cash(show) == checkout["total_cents"] - refund["amount"]
    async with office.engine.transaction(organization=show.organization) as tx:
        order = await views.order(tx, checkout["id"])
        receipt = documents.receipt(order, await views.items(tx, checkout["id"]))
    written = f"{Decimal(checkout['total_cents']).scaleb(-exponent(currency)):,.{exponent(currency)}f} {currency}"
    assert written in text_of(receipt)


def charged(office: Office, provider: str) -> int:
    if provider == "stripe":
        session = list(office.stripe.books.sessions.values())[-1]
        return from_stripe(session["amount_total"], session["currency"])
    amount = list(office.paypal.books.orders.values())[-1]["purchase_units"][0]["amount"]
    return to_minor(amount["value"], amount["currency_code"])


def given_back(office: Office, provider: str, refund_id: str, currency: str) -> int:
    if provider == "stripe":
        return from_stripe(office.stripe.books.refunds[refund_id]["amount"], currency)
    return to_minor(office.paypal.books.refunds[refund_id]["amount"]["value"], currency)


def text_of(pdf: bytes) -> str:
    """Return the text of a PDF's first page."""
    return PdfReader(io.BytesIO(pdf)).pages[0].extract_text()


def sales(currencies: Any) -> list[Any]:
    return [
        pytest.param(currency, provider, id=f"{currency}-{provider}")
        for currency in currencies
        for provider in ("stripe", "paypal")
        if is_taken_by(provider, currency)
    ]


@pytest.mark.parametrize(("currency", "provider"), sales(ONE_OF_A_KIND))
async def test_what_is_shown_is_charged_booked_and_given_back(office: Office, currency: str, provider: Any) -> None:
    await sell_and_refund(office, currency, provider)
    await office.assert_sound()


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_every_currency_is_sold_in_at_every_service_that_takes_it(office: Office) -> None:
    for currency in sorted(STRIPE.currencies | PAYPAL.currencies):
        for provider in ("stripe", "paypal"):
            if is_taken_by(provider, currency):
                await sell_and_refund(office, currency, provider)
    await office.assert_sound()


@pytest.mark.parametrize(
    ("currency", "price_cents", "says"),
    [
        ("XAU", 100, "neither Stripe nor PayPal accepts it"),
        ("KWD", 5124, "multiple of 10"),
        ("HUF", 12345, "multiple of 100"),
    ],
)
async def test_an_event_that_nobody_could_pay_for_is_refused(
    office: Office, currency: str, price_cents: int, says: str
) -> None:
    section = Section(name="Hall", price_cents=price_cents, rows={"A": 1})
    with pytest.raises(Invalid, match=says):
        await office.show(currency=currency, sections=(section,))


@pytest.mark.parametrize("currency", ["KWD", "BHD", "JOD", "OMR", "TND"])
async def test_a_late_share_that_is_not_a_multiple_of_the_step_is_refunded(office: Office, currency: str) -> None:
    """A person refunds a part at Stripe; then one ticket after the other is refunded here, to the last unit."""
    await office.source()
    hall = Section(name="Hall", price_cents=12370, rows={"A": 2})
    show = await office.show(currency=currency, policy=POLICY, sections=(hall,))
    checkout = await office.checkout(show, "Hall A1", "Hall A2")
    office.stripe.pay(await office.open_page(show, checkout))
    await office.deliver()
    one, other = await office.tickets(checkout)
    [charged_] = office.stripe.books.charges.values()
    made, _ = office.stripe.books.refund({"charge": charged_["id"], "amount": "12390"})
    event = {"id": "evt_there", "object": "event", "type": "refund.created", "data": {"object": dict(made)}}
    assert (await office.webhook(event)).status == 200
    for ticket in (one, other):
        async with office.engine.transaction(organization=show.organization) as tx:
            await after_sale.refund(tx, checkout["id"], tickets=[ticket["id"]], reason="test", actor="test")
        await office.deliver()
    assert await office.cash(show) == 0
    assert await office.status(checkout) == "refunded"
    await office.assert_sound()
