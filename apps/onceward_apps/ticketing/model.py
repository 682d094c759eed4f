"""The rules of selling tickets, as pure functions: prices, shares, ledger entries, and whether a payment buys.

checkout  started ──pay──▶ completed ──refund all──▶ refunded
             │ ├─time──▶ expired    (a late payment still sells seats that are free)
             │ ├─buyer─▶ abandoned  (a late payment is refunded)
             │ └─card──▶ failed     (the buyer may try again)
seat      available ──hold──▶ held ──sell──▶ sold ──refund──▶ available; the organizer blocks and unblocks
hold      active ──▶ converted | expired | cancelled
ticket    active ──scan──▶ scanned;  active, scanned ──▶ void
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from onceward import payments
from onceward.ledger import Entry

FeePaidBy = Literal["buyer", "organizer"]
Provider = Literal["stripe", "paypal", "none"]
BPS = 10_000
"""Basis points in 100 %. Rates are integers: 250 is 2.5 %."""


# -- prices ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How an event is priced: the platform fee, who pays it, the tax, whether prices include the tax, and what a group
    gets: from `group_from` tickets on, `group_bps` off their prices."""

    fee_bps: int = 250
    fee_paid_by: FeePaidBy = "buyer"
    tax_bps: int = 0
    tax_included: bool = False
    group_from: int | None = None
    group_bps: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Coupon:
    """A discount on the subtotal: a percentage or an amount, never more than the subtotal."""

    code: str
    percent_bps: int | None = None
    amount_cents: int | None = None

    def discount(self, subtotal_cents: int, step: int = 1) -> int:
        if self.percent_bps is not None:
            return rounded(subtotal_cents * self.percent_bps, BPS, step)
        return min((self.amount_cents or 0) // step * step, subtotal_cents)


@dataclass(frozen=True, slots=True)
class Share:
    """The share of one ticket in an order. `paid_cents` is the amount of a refund of the ticket."""

    price_cents: int
    discount_cents: int
    tax_cents: int
    fee_cents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """The amounts of an order.

    `total_cents` is what the buyer pays; `group_discount_cents` is a part of the discount.
    """

    subtotal_cents: int
    discount_cents: int
    group_discount_cents: int
    tax_cents: int
    platform_fee_cents: int
    total_cents: int
    shares: tuple[Share, ...]


def rounded(numerator: int, denominator: int, step: int = 1) -> int:
    """Divide without floats and round half up to a multiple of `step`. The numerator must not be negative."""
    return (2 * numerator + denominator * step) // (2 * denominator * step) * step


def quote(
    prices_cents: Sequence[int],
    policy: Policy,
    coupon: Coupon | None = None,
    *,
    admits: Sequence[bool] | None = None,
    step: int = 1,
) -> Quote:
    """Price an order. Fee and tax apply to the subtotal after the discount, each rounded once for the whole order.

    A group's discount comes first, on the prices of what admits somebody (`admits`; None: everything), then the
    coupon's
    on what is left. If the prices are multiples of `step`, so is every amount, also of a single ticket: the payment
    service accepts no other amounts in this currency.
    """
    subtotal = sum(prices_cents)
    grouped = [
        price if is_one else 0 for price, is_one in zip(prices_cents, admits or [True] * len(prices_cents), strict=True)
    ]
    number = len(prices_cents) if admits is None else sum(admits)
    has_group = policy.group_from is not None and number >= policy.group_from
    group = rounded(sum(grouped) * policy.group_bps, BPS, step) if has_group else 0
    of_group = spread(group, grouped, step)
    left = [price - less for price, less in zip(prices_cents, of_group, strict=True)]
    of_coupon = 0 if coupon is None else coupon.discount(subtotal - group, step)
    discount = group + of_coupon
    net = subtotal - discount
    fee = rounded(net * policy.fee_bps, BPS, step)
    tax = rounded(net * policy.tax_bps, BPS + policy.tax_bps if policy.tax_included else BPS, step)
    total = net + (0 if policy.tax_included else tax) + (fee if policy.fee_paid_by == "buyer" else 0)
    discounts = [a + b for a, b in zip(of_group, spread(of_coupon, left, step), strict=True)]
    nets = [price - less for price, less in zip(prices_cents, discounts, strict=True)]
    rows = zip(prices_cents, discounts, spread(tax, nets, step), spread(fee, nets, step), strict=True)
    return Quote(
        subtotal_cents=subtotal,
        discount_cents=discount,
        group_discount_cents=group,
        tax_cents=tax,
        platform_fee_cents=fee,
        total_cents=total,
        shares=tuple(Share(*row) for row in rows),
    )


def spread(amount: int, weights: Sequence[int], step: int = 1) -> list[int]:
    """Divide an amount by weights into parts that add up to it exactly; the largest remainders get the odd cents.

    The parts are multiples of `step` if the amount is.
    """
    whole = sum(weights)
    if whole == 0:
        return [0] * len(weights)
    if step > 1:
        return [part * step for part in spread(amount // step, weights)]
    parts = [amount * weight // whole for weight in weights]
    by_remainder = sorted(range(len(weights)), key=lambda n: (-(amount * weights[n] % whole), n))
    for n in by_remainder[: amount - sum(parts)]:
        parts[n] += 1
    return parts


def refundable(shares: Sequence[Share], *, fee_paid_by: FeePaidBy, tax_included: bool) -> int:
    """Return what the buyer paid for these tickets."""
    return sum(
        share.price_cents
        - share.discount_cents
        + (0 if tax_included else share.tax_cents)
        + (share.fee_cents if fee_paid_by == "buyer" else 0)
        for share in shares
    )


# -- the ledger ------------------------------------------------------------------------------------------------------

ACCOUNTS: dict[str, Literal["asset", "liability", "revenue", "expense"]] = {
    "cash": "asset",
    "platform_fee": "liability",
    "platform_fee_payable": "liability",
    "fee_expense": "expense",
    "sales_tax_payable": "liability",
    "discount_expense": "expense",
    "refunds_payable": "liability",
}
"""Accounts that an organization's first event in a currency opens. Each event also has its own revenue account."""


def seat_label(section: str, row: str, number: int | str = "") -> str:
    """Return the label of a seat, which is unique in its event; without a number, the part that its row has in
    common."""
    return f"{section} {row}{number}"


def pool_group(event_id: UUID) -> str:
    """Return the group of all capacity pools of an event; its totals are the occupancy."""
    return f"ticketing:{event_id}"


def addon_group(event_id: UUID) -> str:
    """Return the group of the pools of an event's add-ons, which admit nobody."""
    return f"ticketing:addons:{event_id}"


def revenue_account(event_id: UUID) -> str:
    return f"event_revenue:{event_id}"


def cash_shares(share: Share, *, event_id: UUID, fee_paid_by: FeePaidBy, tax_included: bool) -> list[payments.Share]:
    """Return to which accounts the money of the buyer belongs, without zeros. They add up to what the buyer paid.

    | money                               | account              |
    |-------------------------------------|----------------------|
    | price less discount and tax in it   | revenue of the event |
    | tax, on top or in the price         | sales tax payable    |
    | fee paid by the buyer               | platform fee         |
    """
    tax_in_price = share.tax_cents if tax_included else 0
    rows = [
        (revenue_account(event_id), share.price_cents - share.discount_cents - tax_in_price),
        ("sales_tax_payable", share.tax_cents),
        ("platform_fee", share.fee_cents if fee_paid_by == "buyer" else 0),
    ]
    return [payments.Share(code, amount) for code, amount in rows if amount > 0]


def other_entries(share: Share, *, event_id: UUID, currency: str, fee_paid_by: FeePaidBy) -> list[Entry]:
    """Return the entries of a sale that move no money of the buyer, without zeros.

    | money                  | debit            | credit               |
    |------------------------|------------------|----------------------|
    | discount               | discount expense | revenue of the event |
    | fee of the organizer   | fee expense      | platform fee payable |
    """
    rows = [
        ("discount_expense", revenue_account(event_id), share.discount_cents),
        ("fee_expense", "platform_fee_payable", share.fee_cents if fee_paid_by == "organizer" else 0),
    ]
    return [Entry(debit, credit, amount, currency) for debit, credit, amount in rows if amount > 0]


def total_share(shares: Sequence[Share]) -> Share:
    """Add up the shares of several tickets."""
    return Share(
        sum(share.price_cents for share in shares),
        sum(share.discount_cents for share in shares),
        sum(share.tax_cents for share in shares),
        sum(share.fee_cents for share in shares),
    )


# -- judging a payment -----------------------------------------------------------------------------------------------

Reason = Literal[
    "currency_mismatch",
    "amount_mismatch",
    "checkout_abandoned",
    "second_payment",
    "seats_gone",
    "coupon_used_up",
    "event_cancelled",
    "erased",
]
AUDIENCE: dict[Reason, Literal["admin", "fraud"]] = {
    "currency_mismatch": "fraud",
    "amount_mismatch": "fraud",
    "checkout_abandoned": "admin",
    "second_payment": "admin",
    "seats_gone": "admin",
    "coupon_used_up": "admin",
    "event_cancelled": "admin",
    "erased": "admin",
}
"""Which staff get the notice about a payment that cannot be used."""


def refusal(*, status: str, is_cancelled: bool, is_exact: bool) -> Reason | None:
    """Return why a payment for a checkout buys nothing. Expiry plays no part: the database decides whether seats are
    free."""
    if status in ("completed", "refunded"):
        return "second_payment"
    if not is_exact:
        return "amount_mismatch"
    if is_cancelled:
        return "event_cancelled"
    return "checkout_abandoned" if status == "abandoned" else None


# -- occupancy -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How many places of an event are sold, held and free."""

    total: int
    held: int
    sold: int

    @property
    def available(self) -> int:
        return max(0, self.total - self.held - self.sold)

    def percent(self, count: int) -> float:
        return round(100 * count / self.total, 1) if self.total else 0.0

    def shown(self) -> dict[str, float]:
        return {
            "total_available": self.available,
            "total_held": self.held,
            "total_sold": self.sold,
            "percent_available": self.percent(self.available),
            "percent_held": self.percent(self.held),
            "percent_sold": self.percent(self.sold),
        }
