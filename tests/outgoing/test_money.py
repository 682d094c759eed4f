"""Every currency, at every payment service: nothing is charged, shown or refunded in another size than meant."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onceward.integrations.paypal import AMOUNTS as PAYPAL
from onceward.integrations.paypal import to_decimal, to_minor
from onceward.integrations.stripe import AMOUNTS as STRIPE
from onceward.integrations.stripe import from_stripe, to_stripe
from onceward.money import common_step, exponent, format_amount, format_number
from onceward_apps.ticketing.documents import money
from onceward_apps.ticketing.model import Coupon, Policy, quote, refundable

CURRENCIES = sorted(STRIPE.currencies | PAYPAL.currencies)


@pytest.mark.parametrize(
    ("units", "currency", "at_stripe"),
    [
        ("12.34", "EUR", 1234),
        ("500", "JPY", 500),
        ("5", "ISK", 500),
        ("5", "UGX", 500),
        ("5.120", "KWD", 5120),
        ("12.30", "HUF", 1230),
        ("12.30", "TWD", 1230),
        ("7.00", "MGA", 7),
        ("99.50", "RSD", 9950),
    ],
)
def test_amounts_are_written_as_stripe_documents_them(units: str, currency: str, at_stripe: int) -> None:
    minor = int(Decimal(units).scaleb(exponent(currency)))
    assert to_stripe(minor, currency) == at_stripe
    assert from_stripe(at_stripe, currency) == minor


@pytest.mark.parametrize(("minor", "currency"), [(5124, "KWD"), (5121, "BHD"), (150, "MGA")])
def test_an_amount_that_stripe_does_not_take_is_an_error(minor: int, currency: str) -> None:
    with pytest.raises(ValueError, match="multiples of 10"):
        to_stripe(minor, currency)


@pytest.mark.parametrize(
    ("currency", "expected"),
    [
        ("EUR", 1),
        ("JPY", 1),
        ("ISK", 1),
        ("UGX", 1),
        ("KWD", 10),
        ("TND", 10),
        ("HUF", 100),
        ("TWD", 100),
        ("MGA", 100),
    ],
)
def test_the_step_suits_every_service_that_takes_the_currency(currency: str, expected: int) -> None:
    assert common_step(currency, (STRIPE, PAYPAL)) == expected


def test_a_currency_that_is_not_listed_is_taken_by_nobody() -> None:
    assert not STRIPE.takes("XAU")
    assert not PAYPAL.takes("KWD")
    assert STRIPE.takes("kwd")


@pytest.mark.parametrize(
    ("currency", "written"),
    [
        ("RSD", "1,234.56"),
        ("ALL", "1,234.56"),
        ("LBP", "1,234.56"),
        ("MMK", "1,234.56"),
        ("ISK", "123,456"),
        ("UGX", "123,456"),
        ("KWD", "123.456"),
        ("EUR", "1,234.56"),
        ("JPY", "123,456"),
    ],
)
def test_amounts_are_shown_with_the_decimals_they_have(currency: str, written: str) -> None:
    assert format_number(123456, currency) == written
    assert written in format_amount(123456, currency)
    assert written in money(123456, currency)


@pytest.mark.parametrize("currency", CURRENCIES)
@settings(max_examples=8, deadline=None, derandomize=True)
@given(
    prices=st.lists(st.integers(0, 5000), min_size=1, max_size=6),
    fee_bps=st.integers(0, 2000),
    tax_bps=st.integers(0, 2500),
    tax_included=st.booleans(),
    fee_of_buyer=st.booleans(),
    percent_bps=st.integers(0, 10_000),
)
def test_a_quote_and_each_refund_of_it_can_be_paid_in_every_currency(
    currency: str,
    prices: list[int],
    fee_bps: int,
    tax_bps: int,
    tax_included: bool,
    fee_of_buyer: bool,
    percent_bps: int,
) -> None:
    """What every service that takes the currency charges, gives back and writes is what was quoted."""
    multiple = common_step(currency, (STRIPE, PAYPAL))
    payer = "buyer" if fee_of_buyer else "organizer"
    policy = Policy(fee_bps=fee_bps, fee_paid_by=payer, tax_bps=tax_bps, tax_included=tax_included)
    coupon = Coupon(code="X", percent_bps=percent_bps) if percent_bps else None
    asked = quote([price * multiple for price in prices], policy, coupon, step=multiple)
    single = [refundable([share], fee_paid_by=payer, tax_included=tax_included) for share in asked.shares]
    assert sum(single) == asked.total_cents
    for amount in (asked.total_cents, *single):
        if STRIPE.takes(currency):
            assert from_stripe(to_stripe(amount, currency), currency) == amount
        if PAYPAL.takes(currency):
            assert to_minor(to_decimal(amount, currency), currency) == amount
        shown = "".join(each for each in format_number(amount, currency) if each.isdigit())
        assert int(shown) == amount
