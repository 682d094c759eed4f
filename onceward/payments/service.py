"""The contract between the payment machine and a payment service: what the machine asks, and what a service answers.

An integration declares a class that implements `PaymentService` in its field `payments`. The machine
(`onceward.payments`) never
sees the service's own objects: it asks the six kinds of question below and gets reports. A **report** says how one
object at the
service stands now. Events are read into the same reports, so an event, an answer and a lookup all move the machine in
one way,
and a report that comes twice, late or out of order changes nothing.

    open, close, read, capture         a page on which the buyer pays            -> PaymentReport
    refund, read_refund, list_refunds  money that goes back to the buyer         -> RefundReport
    list_disputes                      money that the buyer's bank takes back    -> DisputeReport
    read_invoice, read_subscription,
    end_subscription                   instalments                               -> InvoiceReport, SubscriptionReport
    list_events, list_balance          what happened in a period                 -> EventPage, BalancePage
    read_event                         what one webhook says; makes no call      -> EventReading

Rules for an implementation:

- A method that makes something takes `key`, an idempotency key of at most 100 characters. Two calls with the same key
and
  arguments make one object, and the second returns it, however old the key is: a service that forgets keys looks the
  object up.
- A method never raises for something that the service says or does. It returns a `Failure` of `onceward.services`,
judged as
  everywhere: `Unreachable` (nothing was sent), `Throttled` (it did not act), `Unknown` (it may have acted), `Refused`
  (with
  `permanent`, or `account` if an operator must repair the credentials). `Absent` means that the service answered that
  it has no
  such object: that is an end, never a reason to ask again.
- Amounts are `Money` in our minor units (`onceward.money`), never in the service's own form.
- `payment_id` of a report is our id, which `open` stored at the service: with the page and with everything that comes
from the
  page (charge, subscription, invoice). It is None if the object does not carry one, or carries a text that is not a
  UUID.
  The implementation does not decide whether a payment is ours: the machine does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Literal, Protocol, Self
from uuid import UUID

from onceward.money import Amounts, Money
from onceward.services.outcome import Absent, Refused, Throttled, Unknown, Unreachable

__all__ = [
    "PAYMENT_ID",
    "BalanceLine",
    "BalancePage",
    "DisputeReport",
    "DisputeState",
    "Disputes",
    "EventPage",
    "EventReading",
    "Fact",
    "Failure",
    "InstalmentOrder",
    "InvoiceReport",
    "InvoiceState",
    "Line",
    "PageOrder",
    "PaymentReport",
    "PaymentService",
    "PaymentState",
    "PayoutReport",
    "RefundOrder",
    "RefundRefused",
    "RefundReport",
    "RefundState",
    "Refunds",
    "RefundsChanged",
    "SubscriptionReport",
    "SubscriptionState",
]

PAYMENT_ID = "onceward_payment"
"""The name of our id in the metadata of a service's objects. A service with one free field stores the id alone in
it."""

Failure = Refused | Throttled | Unreachable | Unknown
"""Why a question got no answer."""

PaymentState = Literal["open", "approved", "processing", "paid", "declined", "expired"]
"""How a page, or the charge that was made on it, stands.

    open        the buyer can pay
    approved    the buyer agreed and `capture` takes the money; only services with `needs_capture`
    processing  the buyer paid by a method that takes days, such as a bank debit; the page cannot be paid a second time
    paid        the service has the money
    declined    the last try failed. On a page that is still open the buyer may try again: then `is_open` is true
    expired     the page can never be paid any more
"""
RefundState = Literal["pending", "succeeded", "failed"]
"""`pending`: accepted, and the buyer does not have the money yet.

`failed` may follow `succeeded`: the bank returned it.
"""
DisputeState = Literal["inquiry", "open", "won", "lost"]
"""`inquiry`: the bank asks, and no money was taken. `won` includes a closed inquiry and a withdrawn dispute."""
InvoiceState = Literal["open", "paid", "failed", "void"]
"""`failed`: the last try to collect it failed and the service will try again. `void`: it will never be collected."""
SubscriptionState = Literal["incomplete", "active", "late", "unpaid", "ended"]
"""`late`: the newest invoice failed and is retried. `unpaid`: the service gave up, and makes no more tries.
`ended`: no further invoice will be collected, for whatever reason."""


# -- what the machine asks
# -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Line:
    """One line of what is bought, for the buyer to read. The lines add up to the amount, or there are none."""

    title: str
    amount: Money
    quantity: int = 1
    """`amount` is that of the whole line, not of one piece."""


@dataclass(frozen=True, slots=True)
class InstalmentOrder:
    """The page starts a subscription: `amount` of the page is collected now and then every `months`, without an end.

    The machine ends the subscription after the last instalment.
    """

    count: int
    months: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PageOrder:
    """A page to open. Equal orders with one key are one page: every field is the same in a repeated call."""

    payment_id: UUID
    amount: Money
    title: str
    success_url: str
    cancel_url: str
    expires_at: datetime
    """When the page should end. It lies between `shortest_page_s` and `longest_page_s` from the first call with this
    key.
    A service without such an option ignores it."""
    lines: tuple[Line, ...] = ()
    email: str | None = field(default=None, repr=False)
    locale: str | None = None
    instalments: InstalmentOrder | None = None
    """Only for a service with `takes_instalments`."""
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    """Further metadata of the app, for people who read the service's dashboard. The machine never reads it back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefundOrder:
    """A refund to make. `charge` is that of the `PaymentReport`."""

    refund_id: UUID
    payment_id: UUID
    charge: str
    amount: Money | None
    """None: everything that remains of the charge at the service when the call arrives.

    The report says how much it was.
    """
    reason: str
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    """Further metadata of the app, for people who read the service's dashboard. The machine never reads it back."""


# -- what a service answers
# ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentReport:
    """How a page stands, or the charge that was made on it. From `open` it has `page` and `url`."""

    state: PaymentState
    payment_id: UUID | None
    page: str | None = None
    """The id of the page. None if the report comes from the charge alone, which does not name its page."""
    url: str | None = field(default=None, repr=False)
    charge: str | None = None
    """The id under which the money is refunded and disputed. Always set if the state is `paid` and nothing recurs."""
    names: tuple[str, ...] = ()
    """Other ids of the same charge, by which later reports may call it."""
    received: Money | None = None
    """What the buyer paid. Always set if the state is `paid`."""
    fee: Money | None = None
    """What the service took for it, in the currency of `received`, if the object says so."""
    subscription: str | None = None
    """The subscription that the page started. Its money is reported by `InvoiceReport`, never here: `charge` is
    None."""
    is_open: bool = False
    """Whether the buyer may still try on the page, after `declined`."""
    failure: str | None = None
    """A short code of the decline, without personal data."""
    at: datetime | None = None
    """When the service made this statement; None for the answer to a call, which is of now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefundReport:
    """How one refund stands, ours or made by a person at the service."""

    reference: str
    charge: str
    """Any id of the charge: `charge` or one of `names` of its `PaymentReport`."""
    state: RefundState
    amount: Money
    key: str | None = None
    """The key of the `refund` call that made it, which the service stored with it. None: we did not make it."""
    failure: str | None = None
    payment_id: UUID | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class RefundsChanged:
    """An event says that refunds of a charge changed, but not which: the machine calls `list_refunds`."""

    charge: str
    payment_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class RefundRefused:
    """The service refused a refund, for a reason that the machine treats in its own way.

    nothing_left   all of the charge went back already, by refunds or by a dispute
    too_much       more than remains of the charge
    disputed       not while a dispute is open
    no_balance     our account at the service has too little money: the machine tries again for days
    """

    why: Literal["nothing_left", "too_much", "disputed", "no_balance"]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DisputeReport:
    """How one dispute stands. A reversal by the service without a dispute is one that is `lost` from the start."""

    reference: str
    charge: str
    state: DisputeState
    amount: Money
    """What the buyer disputes."""
    withheld: Money | None = None
    """What the service has taken out of our account for this dispute as of now: 0 in an inquiry and after `won`. None
    if the
    service does not say how much: the machine then assumes what remained of the charge, at most `amount`, unless it is
    an inquiry
    or won."""
    fee: Money | None = None
    """The fee of the dispute, in the currency of `amount`, as far as the service took and kept it."""
    reason: str = ""
    is_reversal: bool = False
    """The service took the money back by itself, which is the end of a dispute of the same charge if
    there is one. The machine then moves that dispute, instead of adding one."""
    payment_id: UUID | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InvoiceReport:
    """How one invoice of a subscription stands."""

    reference: str
    subscription: str
    state: InvoiceState
    amount: Money
    """What was paid if the state is `paid`, otherwise what is due."""
    payment_id: UUID | None
    """Our id from the subscription's metadata: that of the payment whose page started the subscription."""
    charge: str | None = None
    """None although it is `paid`: the event leaves the charge out, and the machine calls `read_invoice`."""
    names: tuple[str, ...] = ()
    fee: Money | None = None
    is_first: bool = False
    """Whether this is the invoice that the page itself collected."""
    period_end: datetime | None = None
    next_try_at: datetime | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionReport:
    """How a subscription stands."""

    reference: str
    state: SubscriptionState
    payment_id: UUID | None
    ends_with_period: bool = False
    """It is still active, and ends by itself when the paid period does."""
    period_end: datetime | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PayoutReport:
    """Money that the service sent to our bank. `amount` is what left the balance. A failed payout comes back to it."""

    reference: str
    state: Literal["pending", "paid", "failed"]
    amount: Money
    arrives_at: datetime | None = None
    at: datetime | None = None


Fact = PaymentReport | RefundReport | RefundsChanged | DisputeReport | InvoiceReport | SubscriptionReport | PayoutReport
"""What an event can say. The set is closed: the machine handles it with `match` and ends in `assert_never`."""


@dataclass(frozen=True, slots=True)
class EventReading:
    """What one event says. No facts: it has nothing to do with payments, and is answered with success."""

    facts: tuple[Fact, ...] = ()
    account: str | None = None
    """The connected account that the event is about. None: the account of the source itself."""


@dataclass(frozen=True, slots=True)
class Refunds:
    """All refunds of one charge, oldest first."""

    listed: tuple[RefundReport, ...]


@dataclass(frozen=True, slots=True)
class Disputes:
    """All disputes of one charge, oldest first."""

    listed: tuple[DisputeReport, ...]


@dataclass(frozen=True, slots=True)
class EventPage:
    """A page of events, oldest first. `cursor` is where the next call goes on, also if there are no events yet."""

    readings: tuple[EventReading, ...]
    cursor: str
    has_more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceLine:
    """One movement of our balance at the service: `amount` is what it adds (negative: takes), before `fee`."""

    reference: str
    """The id of the movement."""
    kind: Literal[
        "payment", "refund", "refund_failed", "dispute", "dispute_won", "fee", "payout", "payout_failed", "other"
    ]
    amount: Money
    fee: Money
    """What the service took for it; zero if nothing."""
    source: str | None
    """The id of the charge, refund, dispute or payout that moved it."""
    charge: str | None
    """The charge that a payment, refund or dispute belongs to."""
    at: datetime


@dataclass(frozen=True, slots=True)
class BalancePage:
    """A page of movements, oldest first. `cursor` is where the next call goes on."""

    lines: tuple[BalanceLine, ...]
    cursor: str | None
    has_more: bool


class PaymentService(Protocol):
    """One account at one payment service. The module's docstring has the rules that every method follows."""

    name: ClassVar[str]
    """The name of the integration."""
    title: ClassVar[str]
    amounts: ClassVar[Amounts]
    """The currencies that it takes, and the step of an amount in each."""
    event_types: ClassVar[tuple[str, ...]]
    """The types of webhooks that `read_event` understands. The machine handles exactly these, and `payments accounts
    add` prints
    them for the operator who sets the webhook up at the service."""
    needs_capture: ClassVar[bool]
    """The buyer approves, and only `capture` takes the money. A page that nobody captures is never paid, so the
    machine does
    not need `close` to make sure of it."""
    takes_instalments: ClassVar[bool]
    reports_payouts: ClassVar[bool]
    """Events say how a payout ends. Otherwise the movement of the balance is all that is known, and its end."""
    shortest_page_s: ClassVar[int]
    longest_page_s: ClassVar[int]

    @classmethod
    def connect(cls, client: Any, *, connected_account: str | None = None) -> Self:
        """Return the service of one account. `client` is the integration's own client (`Integration.client`).

        `connected_account` acts for an account that is connected to that of the client.
        """
        ...

    # -- pages

    async def open(self, order: PageOrder, *, key: str) -> PaymentReport | Failure:
        """Open a page. The answer has `page` and `url`. A repeated call returns the same page in its present state."""
        ...

    async def close(self, page: str, *, key: str) -> PaymentReport | Absent | Failure:
        """Make sure that the page cannot be paid, and return how it stands afterwards.

        The buyer may have been faster: then the state is `processing` or `paid`. If the service has no way to close a
        page, the
        answer is that of `read`.
        """
        ...

    async def read(self, page: str) -> PaymentReport | Absent | Failure:
        """Return how the page stands. A page that the service has forgotten is `Absent`: it was never paid."""
        ...

    async def capture(self, page: str, *, key: str) -> PaymentReport | Absent | Failure:
        """Take the money of an approved page. The same money is never taken twice, whatever the key.

        `declined` is an answer, not a failure. Services without `needs_capture` answer as `read` does.
        """
        ...

    # -- money that goes back

    async def refund(
        self, order: RefundOrder, *, key: str, key_age_s: float
    ) -> RefundReport | RefundRefused | Absent | Failure:
        """Refund a charge, in full or in part. The key is stored with the refund, and reported as `RefundReport.key`.

        `key_age_s` is the time since the first call with this key: if the service may have forgotten the key by then,
        the
        implementation looks for the refund before it makes one. `Absent`: the service does not have the charge.
        """
        ...

    async def read_refund(self, reference: str, *, charge: str) -> RefundReport | Absent | Failure: ...

    async def list_refunds(self, charge: str) -> Refunds | Absent | Failure:
        """Return all refunds of a charge in their present state, ours and those that people made at the service."""
        ...

    async def list_disputes(self, charge: str) -> Disputes | Absent | Failure:
        """Return all disputes of a charge in their present state."""
        ...

    # -- instalments; services without `takes_instalments` return Absent

    async def read_invoice(self, reference: str) -> InvoiceReport | Absent | Failure:
        """Return an invoice with its charge."""
        ...

    async def list_invoices(self, subscription: str) -> tuple[InvoiceReport, ...] | Absent | Failure:
        """Return all invoices of a subscription, oldest first, each with its charge if it is paid."""
        ...

    async def read_subscription(self, reference: str) -> SubscriptionReport | Absent | Failure: ...

    async def end_subscription(
        self, reference: str, *, key: str, with_period: bool
    ) -> SubscriptionReport | Absent | Failure:
        """End a subscription now, or (`with_period`) when its paid period ends. Ending it again is a success."""
        ...

    # -- what happened

    async def list_events(self, cursor: str | None, *, since: datetime) -> EventPage | Failure:
        """Return events of `event_types` after the cursor, or from `since` on without a cursor, oldest first.

        The machine applies them as it applies webhooks, so an event that both bring is harmless. It keeps the cursor;
        a page has
        at most 100 events. If the service has forgotten the event of the cursor, the call goes on from `since`.
        """
        ...

    async def list_balance(self, cursor: str | None, *, since: datetime, until: datetime) -> BalancePage | Failure:
        """Return the movements of our balance in a period: payments, refunds, disputes, fees and payouts."""
        ...

    @classmethod
    def read_event(cls, type: str, payload: Mapping[str, Any]) -> EventReading:
        """Return what a webhook says. Pure: no call, no clock.

        An event of other software on the same account has the facts it has, with a `payment_id` of None. An object
        that cannot be
        read (an amount that our units cannot hold, a field of another shape) gives no fact, unless it carries our id:
        then raise
        ValueError with the field and the reason, so that the event fails where an operator sees it.
        """
        ...
