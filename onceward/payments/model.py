"""The values of the machine: payments, refunds, disputes and instalments as an app sees them, and what an app
answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from onceward.ledger.model import checked_amount, checked_code
from onceward.money import Money

PaymentStatus = Literal[
    "created", "open", "processing", "paid", "partly_refunded", "refunded", "disputed", "lost", "failed", "expired"
]
RefundStatus = Literal["requested", "sent", "pending", "done", "failed", "settled"]
DisputeStatus = Literal["inquiry", "open", "won", "lost"]
PlanStatus = Literal["starting", "active", "late", "unpaid", "ending", "ended", "completed"]
InstalmentStatus = Literal["paid", "late", "unpaid", "ended"]
Decision = Literal["accepted", "returned"]

UNPAID: frozenset[str] = frozenset({"created", "open", "processing"})
"""States in which money may still arrive as planned."""
ENDED_UNPAID: frozenset[str] = frozenset({"failed", "expired"})
HAS_MONEY: frozenset[str] = frozenset({"paid", "partly_refunded", "refunded", "disputed", "lost"})


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a payment that belongs to an account of the ledger."""

    account: str
    amount: int

    def __post_init__(self) -> None:
        checked_code(self.account)
        checked_amount(self.amount, of=f"share {self.account}")


@dataclass(frozen=True, slots=True)
class Accept:
    """The app keeps the money. `shares` says to which accounts of the ledger it belongs; by default to
    `Books.revenue`."""

    shares: Sequence[Share] = ()
    result: Any = None
    """The result of the webhook that brought the money, if the app wants another than the machine's."""


@dataclass(frozen=True, slots=True)
class Return:
    """The app does not want the money: the machine refunds it in full."""

    reason: str
    result: Any = None
    """As of `Accept`: for example a `Reply` with another status."""

    def __post_init__(self) -> None:
        if not 0 < len(self.reason) <= 200:
            raise ValueError(f"reason of Return must have 1 to 200 characters, not {len(self.reason)}")


Answer = Accept | Return


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """The accounts of the ledger that payments of an app are posted to, declared once:
    `app.payments.books(Books(...))`."""

    cash: str = "cash"
    revenue: str = "revenue"
    refunds_payable: str = "refunds_payable"
    disputed: str = "disputed_payments"
    dispute_losses: str = "dispute_losses"
    service_fees: str = "service_fees"
    bank: str = "bank"
    by_hand: str = "by_hand"
    """The cash of payments without a service: the till, or the bank account that buyers transfer money to."""
    kinds: Mapping[str, Literal["asset", "liability", "equity", "revenue", "expense"]] = field(
        default_factory=dict[str, Any]
    )
    """The kinds of further accounts that shares name; without an entry an account is a liability.

    A name that ends with a colon stands for all accounts that begin with it."""

    def __post_init__(self) -> None:
        for code in (self.cash, self.revenue, self.refunds_payable, self.disputed, self.dispute_losses):
            checked_code(code)
        for code in (self.service_fees, self.bank, self.by_hand):
            checked_code(code)

    def kind(self, code: str) -> Literal["asset", "liability", "equity", "revenue", "expense"]:
        """Return the kind of an account."""
        if (kind := self.kinds.get(code) or self.kinds.get(code.partition(":")[0] + ":")) is not None:
            return kind
        if code in (self.cash, self.disputed, self.bank, self.by_hand):
            return "asset"
        if code in (self.dispute_losses, self.service_fees):
            return "expense"
        return "revenue" if code == self.revenue else "liability"


@dataclass(frozen=True, slots=True)
class Instalments:
    """A payment in `count` equal instalments, one every `months`: `amount` of `open` is that of one instalment.

    `grace_days`: how long an instalment may be late before `on_instalment` hears that the plan is unpaid.
    """

    count: int
    months: int = 1
    grace_days: int = 7

    def __post_init__(self) -> None:
        for name, least, most in (("count", 2, 120), ("months", 1, 12), ("grace_days", 0, 90)):
            value = getattr(self, name)
            if not least <= value <= most:
                raise ValueError(f"{name} of Instalments is {value}: it must be between {least} and {most}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Payment:
    """A payment as it stands. `received`, `refunded` and the other sums are in minor units of `currency`."""

    id: UUID
    organization: UUID
    account: str
    """The name of the account."""
    service: str
    subject_type: str
    subject_id: str
    status: PaymentStatus
    amount: Money
    """What was asked for."""
    title: str
    decision: Decision | None
    received: int
    refunded: int
    """What went back to the buyer by refunds that are done."""
    withheld: int
    """What disputes hold or have taken."""
    is_superseded: bool
    """Another page was opened for the same subject before this one was paid."""
    charge: str | None
    """The id of the money at the service."""
    plan_id: UUID | None
    instalment: int | None
    """The number of the instalment, from 1; None for a payment at once."""
    data: Mapping[str, Any]
    """What the app gave to `open`."""
    created_at: datetime
    paid_at: datetime | None
    failure: str | None = None
    """Why the last try to pay failed, as a short code of the service."""
    is_late: bool = False
    """In `on_paid`: the payment had ended before the money arrived."""
    event_id: str | None = None
    """In `on_paid` and `on_returned`: the id of the service's event that reported the money; None if we asked."""
    reason: str | None = None
    """Why the money was returned, if it was."""

    @property
    def money(self) -> Money:
        """What the buyer paid."""
        return Money(self.received, self.amount.currency)

    @property
    def is_exact(self) -> bool:
        """Whether the buyer paid what was asked for."""
        return self.received == self.amount.amount

    @property
    def refundable(self) -> int:
        """What no refund or dispute has taken yet."""
        return max(0, self.received - self.refunded - self.withheld)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refund:
    """A refund as it stands, with its payment after the change."""

    id: UUID
    payment: Payment
    status: RefundStatus
    amount: Money
    reason: str
    requested_by: str
    """Who asked for it; `service` if a person made it in the service's own dashboard."""
    lines: Sequence[Any]
    """What the app gave to `refund`."""
    failure: str | None
    reference: str | None
    """The id of the refund at the service; None as long as the service has not made it."""
    attempt: int
    """How many times the service was asked for it, from 1. Repeating a refund that failed is another attempt."""
    was_done: bool
    """The refund was done before and failed afterwards: the bank returned the money."""
    key: str | None = None
    """The key that the app gave to `refund`."""

    @property
    def is_full(self) -> bool:
        """Whether nothing is left of the payment."""
        return self.payment.refunded >= self.payment.received


@dataclass(frozen=True, slots=True, kw_only=True)
class RefundBatch:
    """How many refunds at once stand: of `total` payments, `asked` have a refund and `refused` cannot have one."""

    id: UUID
    state: Literal["running", "asked", "done", "stopped"]
    """`asked`: every payment was gone through, and the service has not answered every call. `done`: it has."""
    reason: str
    total: int
    asked: int
    refused: int
    refunds: Mapping[str, int]
    """How many of the refunds are in each state."""
    paid_back: Sequence[Money]
    """What the buyers have, one sum for each currency."""
    reasons: Mapping[UUID, str]
    """Why the first hundred payments that were refused cannot be refunded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispute:
    """A dispute as it stands, with its payment after the change."""

    id: UUID
    payment: Payment
    status: DisputeStatus
    before: DisputeStatus | None
    """The state before this change; None if the dispute is new."""
    amount: Money
    taken: int
    """What the service holds or has taken for it, without what the buyer got by refunds."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Instalment:
    """What happened to a plan of instalments. `payment` is that of this instalment if `status` is `paid`, otherwise
    the first."""

    plan_id: UUID
    status: InstalmentStatus
    payment: Payment
    number: int
    """How many instalments are paid."""
    count: int
    period_end: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page that was opened. `url` is an address of ours that leads to it."""

    payment_id: UUID
    url: str
    expires_at: datetime
