"""The rules of selling tickets, as pure functions: prices, shares, ledger entries, and what a payment is worth.

checkout  started ──pay──▶ completed ──refund all──▶ refunded
             │ ├─time──▶ expired    (a late payment still sells what is free)
             │ ├─buyer─▶ abandoned  (a late payment is given back)
             │ └─card──▶ failed     (another try may pay it)
seat      available ──hold──▶ held ──sell──▶ sold ──refund──▶ available; blocked is the organizer's
hold      active ──▶ converted | expired | cancelled
ticket    active ──scan──▶ scanned;  active, scanned ──▶ void
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from onceward.ledger import Entry

FeePaidBy = Literal["buyer", "organizer"]
Provider = Literal["stripe", "paypal", "none"]
BPS = 10_000
"""Basis points in a whole: rates are integers, 250 is 2.5 %."""


# -- prices ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How an event is priced: the platform's fee, the tax, who pays and what is already in the price."""

    fee_bps: int = 250
    fee_paid_by: FeePaidBy = "buyer"
    tax_bps: int = 0
    tax_included: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Coupon:
    """Off the subtotal: a share of it, or an amount, never more than there is."""

    code: str
    percent_bps: int | None = None
    amount_cents: int | None = None

    def discount(self, subtotal_cents: int, step: int = 1) -> int:
        if self.percent_bps is not None:
            return rounded(subtotal_cents * self.percent_bps, BPS, step)
        return min((self.amount_cents or 0) // step * step, subtotal_cents)


@dataclass(frozen=True, slots=True)
class Share:
    """What one ticket carries of an order. `paid_cents` is what comes back when it is refunded."""

    price_cents: int
    discount_cents: int
    tax_cents: int
    fee_cents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """An order's money. `total_cents` is what the buyer pays, to the cent."""

    subtotal_cents: int
    discount_cents: int
    tax_cents: int
    platform_fee_cents: int
    total_cents: int
    shares: tuple[Share, ...]


def rounded(numerator: int, denominator: int, step: int = 1) -> int:
    """Divide and round half up to a multiple of `step`, without floats. Both are positive or zero."""
    return (2 * numerator + denominator * step) // (2 * denominator * step) * step


def quote(prices_cents: Sequence[int], policy: Policy, coupon: Coupon | None = None, *, step: int = 1) -> Quote:
    """Fee and tax are taken of what is left after the discount, each rounded once for the whole order.

    Every amount, also of a single ticket, is a multiple of `step` if the prices are: the payment service takes and
    refunds no other amounts in this currency.
    """
    subtotal = sum(prices_cents)
    discount = 0 if coupon is None else coupon.discount(subtotal, step)
    net = subtotal - discount
    fee = rounded(net * policy.fee_bps, BPS, step)
    tax = rounded(net * policy.tax_bps, BPS + policy.tax_bps if policy.tax_included else BPS, step)
    total = net + (0 if policy.tax_included else tax) + (fee if policy.fee_paid_by == "buyer" else 0)
    discounts = spread(discount, prices_cents, step)
    nets = [price - less for price, less in zip(prices_cents, discounts, strict=True)]
    rows = zip(prices_cents, discounts, spread(tax, nets, step), spread(fee, nets, step), strict=True)
    return Quote(
        subtotal_cents=subtotal,
        discount_cents=discount,
        tax_cents=tax,
        platform_fee_cents=fee,
        total_cents=total,
        shares=tuple(Share(*row) for row in rows),
    )


def spread(amount: int, weights: Sequence[int], step: int = 1) -> list[int]:
    """Divide an amount by weights so that the parts add up to it exactly; the largest remainders get the odd cents.

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
    """What the buyer paid for these tickets."""
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
"""Opened with an organization's first event in a currency; each event has a revenue account of its own besides."""


def revenue_account(event_id: UUID) -> str:
    return f"event_revenue:{event_id}"


def sale_entries(
    share: Share, *, event_id: UUID, currency: str, fee_paid_by: FeePaidBy, tax_included: bool
) -> list[Entry]:
    """The journal of a sale. Its debits of cash less its credits of cash are what was paid; zeros are left out.

    | money                  | debit            | credit               |
    |------------------------|------------------|----------------------|
    | price less discount    | cash             | revenue of the event |
    | discount               | discount expense | revenue of the event |
    | tax on top             | cash             | sales tax payable    |
    | tax in the price       | revenue          | sales tax payable    |
    | fee paid by the buyer  | cash             | platform fee         |
    | fee of the organizer   | fee expense      | platform fee payable |
    """
    revenue = revenue_account(event_id)
    tax_from = revenue if tax_included else "cash"
    fee = ("cash", "platform_fee") if fee_paid_by == "buyer" else ("fee_expense", "platform_fee_payable")
    rows = [
        ("cash", revenue, share.price_cents - share.discount_cents),
        ("discount_expense", revenue, share.discount_cents),
        (tax_from, "sales_tax_payable", share.tax_cents),
        (*fee, share.fee_cents),
    ]
    return [Entry(debit, credit, amount, currency) for debit, credit, amount in rows if amount > 0]


def total_share(shares: Sequence[Share]) -> Share:
    """Several tickets as one."""
    return Share(
        sum(share.price_cents for share in shares),
        sum(share.discount_cents for share in shares),
        sum(share.tax_cents for share in shares),
        sum(share.fee_cents for share in shares),
    )


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of an entry of a sale; `cash` if that is money which the buyer paid."""

    entry_id: int
    amount: int
    cash: bool


def draw(left: Sequence[Left], amount: int) -> list[Left]:
    """As much of each entry as this much of the cash is; all of the cash takes all of the rest along. Zeros are left out."""
    cash = sum(each.amount for each in left if each.cash)
    if not 0 <= amount <= cash:
        raise ValueError(f"{amount} cannot be taken back of a sale of which {cash} is left")
    if amount == cash:
        return [each for each in left if each.amount > 0]
    shares = iter(spread(amount, [each.amount for each in left if each.cash]))
    drawn = [
        Left(each.entry_id, next(shares) if each.cash else rounded(each.amount * amount, cash), each.cash)
        for each in left
    ]
    return [each for each in drawn if each.amount > 0]


# -- judging a payment -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Payment:
    """Money that a provider says it has taken. `id` names the payment (pi_, ch_, capture), `reference` who said so."""

    provider: Provider
    id: str
    reference: str
    amount_cents: int
    currency: str
    organization: UUID | None = None
    event: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What judging needs to know of a checkout."""

    status: str
    total_cents: int
    currency: str
    organization: UUID
    event: UUID
    paid_by: str | None
    """The payment that completed it."""
    event_cancelled: bool = False


Reason = Literal[
    "organization_mismatch",
    "event_mismatch",
    "currency_mismatch",
    "amount_mismatch",
    "checkout_abandoned",
    "second_payment",
    "seats_gone",
    "coupon_used_up",
    "event_cancelled",
]
AUDIENCE: dict[Reason, Literal["admin", "fraud", "security"]] = {
    "organization_mismatch": "security",
    "event_mismatch": "security",
    "currency_mismatch": "fraud",
    "amount_mismatch": "fraud",
    "checkout_abandoned": "admin",
    "second_payment": "admin",
    "seats_gone": "admin",
    "coupon_used_up": "admin",
    "event_cancelled": "admin",
}
"""Who is told of a payment that bought nothing."""


@dataclass(frozen=True, slots=True)
class Sell:
    """The payment fits: sell, if the seats can still be had."""


@dataclass(frozen=True, slots=True)
class Done:
    """This very payment has been dealt with: answer as before."""


@dataclass(frozen=True, slots=True)
class GiveBack:
    """The money was taken for nothing: refund it, and say why."""

    reason: Reason


Verdict = Sell | Done | GiveBack


def judge(order: Order, payment: Payment) -> Verdict:
    """What a payment is worth to a checkout. Expiry is not judged here: whether seats are free is the database's."""
    if payment.organization is not None and payment.organization != order.organization:
        return GiveBack("organization_mismatch")
    if payment.event is not None and payment.event != order.event:
        return GiveBack("event_mismatch")
    if order.status in ("completed", "refunded"):
        return Done() if order.paid_by == payment.id else GiveBack("second_payment")
    if payment.currency != order.currency:
        return GiveBack("currency_mismatch")
    if payment.amount_cents != order.total_cents:
        return GiveBack("amount_mismatch")
    if order.event_cancelled:
        return GiveBack("event_cancelled")
    if order.status == "abandoned":
        return GiveBack("checkout_abandoned")
    return Sell()


# -- occupancy -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How full an event is."""

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


def is_over(until: datetime, now: datetime) -> bool:
    """At the limit it counts as over."""
    return until <= now
