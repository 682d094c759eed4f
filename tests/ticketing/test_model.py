"""The pure rules: prices, shares, entries, codes."""

from __future__ import annotations

from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceward_apps.ticketing import codes
from onceward_apps.ticketing.model import (
    Coupon,
    Done,
    GiveBack,
    Order,
    Payment,
    Policy,
    Sell,
    judge,
    quote,
    refundable,
    rounded,
    sale_entries,
    spread,
    total_share,
)

policies = st.builds(
    Policy,
    fee_bps=st.integers(0, 2000),
    fee_paid_by=st.sampled_from(["buyer", "organizer"]),
    tax_bps=st.integers(0, 3000),
    tax_included=st.booleans(),
)
coupons = (
    st.none()
    | st.builds(Coupon, code=st.just("X"), percent_bps=st.integers(1, 10_000))
    | st.builds(Coupon, code=st.just("X"), amount_cents=st.integers(1, 100_000))
)
prices = st.lists(st.integers(0, 500_000), min_size=1, max_size=12)


def test_the_platform_takes_two_and_a_half_percent_rounded_half_up() -> None:
    assert quote([25000, 25000], Policy()).platform_fee_cents == 1250
    assert rounded(1, 2) == 1
    assert quote([20], Policy()).platform_fee_cents == 1  # half a cent
    assert quote([19], Policy()).platform_fee_cents == 0


def test_tax_on_top_is_added_and_tax_in_the_price_is_not() -> None:
    on_top = quote([10000], Policy(fee_bps=0, tax_bps=1500))
    inside = quote([11500], Policy(fee_bps=0, tax_bps=1500, tax_included=True))
    assert (on_top.tax_cents, on_top.total_cents) == (1500, 11500)
    assert (inside.tax_cents, inside.total_cents) == (1500, 11500)


def test_a_fee_of_the_organizer_is_not_the_buyers() -> None:
    assert quote([10000], Policy(fee_paid_by="organizer")).total_cents == 10000


@given(prices, policies, coupons)
def test_cash_in_the_entries_of_a_sale_is_what_the_buyer_pays(
    given_prices: list[int], policy: Policy, coupon: Coupon | None
) -> None:
    asked = quote(given_prices, policy, coupon)
    entries = sale_entries(
        total_share(asked.shares),
        event_id=uuid4(),
        currency="EUR",
        fee_paid_by=policy.fee_paid_by,
        tax_included=policy.tax_included,
    )
    cash = sum(each.amount for each in entries if each.debit == "cash") - sum(
        each.amount for each in entries if each.credit == "cash"
    )
    assert cash == asked.total_cents
    assert all(each.amount > 0 for each in entries)


@given(prices, policies, coupons)
def test_single_refunds_of_all_tickets_add_up_to_the_total(
    given_prices: list[int], policy: Policy, coupon: Coupon | None
) -> None:
    asked = quote(given_prices, policy, coupon)
    terms = {"fee_paid_by": policy.fee_paid_by, "tax_included": policy.tax_included}
    assert sum(refundable([share], **terms) for share in asked.shares) == asked.total_cents  # pyright: ignore[reportArgumentType]
    assert all(refundable([share], **terms) >= 0 for share in asked.shares)  # pyright: ignore[reportArgumentType]


@given(st.integers(0, 10**9), st.lists(st.integers(0, 10**6), min_size=1, max_size=20))
def test_a_spread_amount_is_neither_more_nor_less(amount: int, weights: list[int]) -> None:
    parts = spread(amount, weights)
    assert sum(parts) == (amount if sum(weights) else 0)
    assert all(part >= 0 for part in parts)


def order(status: str = "started", paid_by: str | None = None) -> Order:
    return Order(status=status, total_cents=100, currency="EUR", organization=ORG, event=EVENT, paid_by=paid_by)


def payment(**changes: object) -> Payment:
    given = {
        "provider": "stripe",
        "id": "pi_1",
        "reference": "evt_1",
        "amount_cents": 100,
        "currency": "EUR",
        **changes,
    }
    return Payment(**given)  # pyright: ignore[reportArgumentType]


ORG, EVENT = uuid4(), uuid4()


@pytest.mark.parametrize(
    ("of", "paid", "expected"),
    [
        (order(), payment(), Sell()),
        (order("expired"), payment(), Sell()),
        (order("failed"), payment(), Sell()),
        (order("abandoned"), payment(), GiveBack("checkout_abandoned")),
        (order("completed", "pi_1"), payment(), Done()),
        (order("completed", "pi_0"), payment(), GiveBack("second_payment")),
        (order(), payment(amount_cents=99), GiveBack("amount_mismatch")),
        (order(), payment(currency="USD"), GiveBack("currency_mismatch")),
        (order(), payment(organization=uuid4()), GiveBack("organization_mismatch")),
        (order(), payment(event=uuid4()), GiveBack("event_mismatch")),
        (order(), payment(organization=ORG, event=EVENT), Sell()),
    ],
)
def test_a_payment_is_judged(of: Order, paid: Payment, expected: object) -> None:
    assert judge(of, paid) == expected


def test_codes_have_twelve_characters_that_cannot_be_mistaken_for_each_other() -> None:
    made = {codes.new_ticket_code() for _ in range(2000)}
    assert len(made) == 2000
    assert all(codes.read_code(code) == code for code in made)
    assert not set("".join(made)) & set("ILOU")


def test_a_code_is_read_however_it_was_typed() -> None:
    assert codes.read_code(" 3kqr 7f92—4mlx ") == "3KQR-7F92-4M1X"
    assert codes.read_code("3KQR7F924MOX") == "3KQR-7F92-4M0X"
    assert codes.read_code("3KQR-7F92") is None


def test_a_qr_code_is_accepted_only_with_our_signature_for_this_event() -> None:
    key, event = b"k" * 32, uuid4()
    said = codes.qr_payload(key, event, "3KQR-7F92-4M1X")
    read = codes.read_presented(key, event, said)
    assert read == codes.Presented("3KQR-7F92-4M1X", signed=True, genuine=True)
    for other in (
        codes.read_presented(b"x" * 32, event, said),
        codes.read_presented(key, uuid4(), said),
        codes.read_presented(key, event, said[:-1] + ("0" if said[-1] != "0" else "1")),
    ):
        assert other is not None
        assert not other.genuine
    typed = codes.read_presented(key, event, "3kqr-7f92-4m1x")
    assert typed == codes.Presented("3KQR-7F92-4M1X", signed=False, genuine=False)
    assert codes.read_presented(key, event, "https://example.org") is None


def test_the_token_of_an_order_opens_that_order_only() -> None:
    key, one, other = b"k" * 32, uuid4(), uuid4()
    token = codes.order_token(key, one, 1)
    assert codes.is_order_token(key, one, 1, token)
    assert not codes.is_order_token(key, one, 2, token), "a higher version revokes it"
    assert not codes.is_order_token(key, other, 1, token)
    assert not codes.is_order_token(key, one, 1, "")
