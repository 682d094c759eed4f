"""The pure rules: prices, shares, entries, codes."""

from __future__ import annotations

from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceward_apps.ticketing import codes
from onceward_apps.ticketing.model import (
    Coupon,
    Policy,
    cash_shares,
    other_entries,
    quote,
    refundable,
    refusal,
    rounded,
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
    event = uuid4()
    whole = total_share(asked.shares)
    shares = cash_shares(whole, event_id=event, fee_paid_by=policy.fee_paid_by, tax_included=policy.tax_included)
    assert sum(each.amount for each in shares) == asked.total_cents
    entries = other_entries(whole, event_id=event, currency="EUR", fee_paid_by=policy.fee_paid_by)
    assert all(each.amount > 0 for each in (*shares, *entries))
    assert "cash" not in {code for each in entries for code in (each.debit, each.credit)}


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


@pytest.mark.parametrize(
    ("status", "given", "expected"),
    [
        ("started", {}, None),
        ("expired", {}, None),
        ("failed", {}, None),
        ("abandoned", {}, "checkout_abandoned"),
        ("completed", {}, "second_payment"),
        ("refunded", {"is_exact": False}, "second_payment"),
        ("started", {"is_exact": False}, "amount_mismatch"),
        ("started", {"is_cancelled": True}, "event_cancelled"),
    ],
)
def test_a_payment_is_judged(status: str, given: dict[str, bool], expected: str | None) -> None:
    assert refusal(status=status, **{"is_cancelled": False, "is_exact": True, **given}) == expected


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
