"""The rules of selling tickets, as pure functions: prices, shares, ledger entries, and the verdict on a payment.

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
from datetime import datetime
from typing import Literal
from uuid import UUID

from onceward.ledger import Entry

FeePaidBy = Literal["buyer", "organizer"]
Provider = Literal["stripe", "paypal", "none"]
BPS = 10_000
"""Basis points in 100 %. Rates are integers: 250 is 2.5 %."""


# -- prices ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How an event is priced: the platform fee, who pays it, the tax, and whether prices include the tax."""

    fee_bps: int = 250
    fee_paid_by: FeePaidBy = "buyer"
    tax_bps: int = 0
    tax_included: bool = False


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
    """The amounts of an order. `total_cents` is what the buyer pays."""

    subtotal_cents: int
    discount_cents: int
    tax_cents: int
    platform_fee_cents: int
    total_cents: int
    shares: tuple[Share, ...]


def rounded(numerator: int, denominator: int, step: int = 1) -> int:
    """Divide without floats and round half up to a multiple of `step`. The numerator must not be negative."""
    return (2 * numerator + denominator * step) // (2 * denominator * step) * step


def quote(prices_cents: Sequence[int], policy: Policy, coupon: Coupon | None = None, *, step: int = 1) -> Quote:
    """Price an order. Fee and tax apply to the subtotal after the discount, each rounded once for the whole order.

    If the prices are multiples of `step`, so is every amount, also of a single ticket: the payment service accepts no
    other amounts in this currency.
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
    """Return the label of a seat, which is unique in its event; without a number, the part that its row has in common."""
    return f"{section} {row}{number}"


def pool_group(event_id: UUID) -> str:
    """Return the group of all capacity pools of an event; its totals are the occupancy."""
    return f"ticketing:{event_id}"


def revenue_account(event_id: UUID) -> str:
    return f"event_revenue:{event_id}"


def sale_entries(
    share: Share, *, event_id: UUID, currency: str, fee_paid_by: FeePaidBy, tax_included: bool
) -> list[Entry]:
    """Return the entries of a sale without zeros. Cash debits minus cash credits are the amount that the buyer paid.

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
    """Add up the shares of several tickets."""
    return Share(
        sum(share.price_cents for share in shares),
        sum(share.discount_cents for share in shares),
        sum(share.tax_cents for share in shares),
        sum(share.fee_cents for share in shares),
    )


@dataclass(frozen=True, slots=True)
class Left:
    """The part of a sale's entry that is not reversed yet; `cash` is true for money that the buyer paid."""

    entry_id: int
    amount: int
    cash: bool


def draw(left: Sequence[Left], amount: int) -> list[Left]:
    """Take the same fraction of each entry as `amount` is of the cash; all of the cash takes everything. Omit zeros."""
    cash = sum(each.amount for each in left if each.cash)
    if not 0 <= amount <= cash:
        raise ValueError(f"{amount} cannot be reversed: the sale has only {cash} left")
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
    """A payment that a provider reports. `id` names the payment (pi_, ch_, capture), `reference` the event that reported it."""

    provider: Provider
    id: str
    reference: str
    amount_cents: int
    currency: str
    organization: UUID | None = None
    event: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The fields of a checkout that `judge` needs."""

    status: str
    total_cents: int
    currency: str
    organization: UUID
    event: UUID
    paid_by: str | None
    """The payment that completed the checkout."""
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
"""Which staff get the notice about a payment that cannot be used."""


@dataclass(frozen=True, slots=True)
class Sell:
    """The payment matches: sell, if the seats are still available."""


@dataclass(frozen=True, slots=True)
class Done:
    """This payment was handled before: return the same result."""


@dataclass(frozen=True, slots=True)
class GiveBack:
    """The payment cannot be used: refund it for this reason."""

    reason: Reason


Verdict = Sell | Done | GiveBack


def judge(order: Order, payment: Payment) -> Verdict:
    """Decide what to do with a payment for a checkout. Expiry plays no part: the database decides whether seats are free."""
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


def is_over(until: datetime, now: datetime) -> bool:
    """Return whether a time is over. It is over at the limit itself."""
    return until <= now
