"""A payment service in memory, behind the contract of `PaymentService`: it keeps its own books, loses answers and sends reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, ClassVar, Self
from uuid import UUID

from onceward.integration import Integration
from onceward.money import Amounts, Money, currency_codes
from onceward.payments.service import (
    BalancePage,
    DisputeReport,
    Disputes,
    EventPage,
    EventReading,
    Fact,
    Failure,
    InvoiceReport,
    PageOrder,
    PaymentReport,
    RefundOrder,
    RefundRefused,
    RefundReport,
    Refunds,
    SubscriptionReport,
)
from onceward.services.outcome import Absent, Refused, Unknown, Unreachable

INTEGRATION = Integration(
    name="acmepay",
    title="Acme Pay",
    client="tests.payments.acme:Client",
    payments="tests.payments.acme:AcmePay",
)


@dataclass
class World:
    """What the service knows. Tests act on it as buyers and banks do."""

    pages: dict[str, dict[str, Any]] = field(default_factory=dict)
    charges: dict[str, dict[str, Any]] = field(default_factory=dict)
    refunds: dict[str, dict[str, Any]] = field(default_factory=dict)
    disputes: dict[str, dict[str, Any]] = field(default_factory=dict)
    subscriptions: dict[str, dict[str, Any]] = field(default_factory=dict)
    invoices: dict[str, dict[str, Any]] = field(default_factory=dict)
    keys: dict[str, Any] = field(default_factory=dict)
    log: list[Fact] = field(default_factory=list)
    """Every report that the service sent as an event, oldest first."""
    calls: list[str] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    """The next calls fail with these. `Unknown` takes effect all the same."""
    pending_refunds: bool = False
    fees: bool = False
    withholds: bool = True
    """Whether the reports of disputes say how much is withheld."""
    ids: Any = field(default_factory=count)
    clock: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    def new(self, prefix: str) -> str:
        return f"{prefix}_{next(self.ids)}"

    def now(self) -> datetime:
        self.clock += timedelta(seconds=1)
        return self.clock

    def emit(self, fact: Fact) -> None:
        self.log.append(fact)

    # -- buyers and banks ------------------------------------------------------------------------------------------------------

    def pay(self, page: str, *, amount: int | None = None, slow: bool = False) -> str:
        """Pay on a page. Return the charge, or the first invoice's charge of a subscription."""
        opened = self.pages[page]
        assert opened["state"] == "open", opened
        order: PageOrder = opened["order"]
        if slow:
            opened["state"] = "processing"
            self.emit(self.page_report(page))
            return ""
        opened["state"] = "paid"
        if order.instalments is not None:
            subscription = self.new("sub")
            self.subscriptions[subscription] = {"state": "active", "order": order, "ends_with_period": False}
            opened["subscription"] = subscription
            self.emit(self.page_report(page))
            return self.bill(subscription, is_first=True)
        charge = self._charge(order, amount or order.amount.amount)
        opened["charge"] = charge
        self.emit(self.page_report(page))
        return charge

    def debit(self, page: str, *, success: bool) -> None:
        """End a slow payment."""
        opened = self.pages[page]
        order: PageOrder = opened["order"]
        opened["state"] = "paid" if success else "declined"
        if success:
            opened["charge"] = self._charge(order, order.amount.amount)
        self.emit(self.page_report(page))

    def expire(self, page: str) -> None:
        self.pages[page]["state"] = "expired"
        self.emit(self.page_report(page))

    def _charge(self, order: PageOrder, amount: int) -> str:
        charge = self.new("ch")
        self.charges[charge] = {
            "amount": amount,
            "currency": order.amount.currency,
            "payment_id": order.payment_id,
            "fee": amount // 50 if self.fees else 0,
        }
        return charge

    def bill(self, subscription: str, *, paid: bool = True, is_first: bool = False) -> str:
        order: PageOrder = self.subscriptions[subscription]["order"]
        invoice = self.new("in")
        charge = self._charge(order, order.amount.amount) if paid else None
        self.invoices[invoice] = {
            "subscription": subscription, "charge": charge, "state": "paid" if paid else "failed", "is_first": is_first,
        }  # fmt: skip
        self.emit(self.invoice_report(invoice))
        return invoice

    def refund_by_hand(self, charge: str, amount: int) -> str:
        return self.add_refund(charge, amount, key=None)

    def add_refund(self, charge: str, amount: int, *, key: str | None) -> str:
        refund = self.new("re")
        state = "pending" if self.pending_refunds else "succeeded"
        self.refunds[refund] = {"charge": charge, "amount": amount, "state": state, "key": key}
        self.emit(self.refund_report(refund))
        return refund

    def move_refund(self, refund: str, state: str) -> None:
        self.refunds[refund]["state"] = state
        self.emit(self.refund_report(refund))

    def dispute(self, charge: str, *, amount: int | None = None, inquiry: bool = False) -> str:
        dispute = self.new("dp")
        self.disputes[dispute] = {
            "charge": charge,
            "amount": amount or self.charges[charge]["amount"],
            "state": "inquiry" if inquiry else "open",
        }
        self.emit(self.dispute_report(dispute))
        return dispute

    def move_dispute(self, dispute: str, state: str) -> None:
        self.disputes[dispute]["state"] = state
        self.emit(self.dispute_report(dispute))

    # -- the truth -------------------------------------------------------------------------------------------------------------

    def refunded(self, charge: str) -> int:
        return sum(
            each["amount"] for each in self.refunds.values() if each["charge"] == charge and each["state"] != "failed"
        )

    def withheld(self, charge: str) -> int:
        """What disputes hold: at most what refunds have left."""
        left = self.charges[charge]["amount"] - sum(
            each["amount"]
            for each in self.refunds.values()
            if each["charge"] == charge and each["state"] == "succeeded"
        )
        held = 0
        for each in self.disputes.values():
            if each["charge"] == charge and each["state"] in ("open", "lost"):
                held += min(each["amount"], max(0, left - held))
        return held

    def balance(self) -> dict[str, int]:
        """Return our money at the service, by currency. A pending refund has not left it."""
        sums: dict[str, int] = {}
        for name, charge in self.charges.items():
            gone = sum(
                each["amount"]
                for each in self.refunds.values()
                if each["charge"] == name and each["state"] == "succeeded"
            )
            currency = charge["currency"]
            sums[currency] = sums.get(currency, 0) + charge["amount"] - charge["fee"] - gone - self.withheld(name)
        return sums

    # -- reports ---------------------------------------------------------------------------------------------------------------

    def page_report(self, page: str) -> PaymentReport:
        opened = self.pages[page]
        order: PageOrder = opened["order"]
        charge = opened.get("charge")
        made = self.charges.get(charge or "")
        return PaymentReport(
            state=opened["state"],
            payment_id=order.payment_id,
            page=page,
            url=f"https://acme.example/{page}",
            charge=charge,
            names=() if charge is None else (f"alias_{charge}",),
            received=None if made is None else Money(made["amount"], made["currency"]),
            fee=None if made is None else Money(made["fee"], made["currency"]),
            subscription=opened.get("subscription"),
            at=self.now(),
        )

    def refund_report(self, refund: str) -> RefundReport:
        made = self.refunds[refund]
        currency = self.charges[made["charge"]]["currency"]
        return RefundReport(
            reference=refund,
            charge=made["charge"],
            state=made["state"],
            amount=Money(made["amount"], currency),
            key=made["key"],
            at=self.now(),
        )

    def dispute_report(self, dispute: str) -> DisputeReport:
        made = self.disputes[dispute]
        currency = self.charges[made["charge"]]["currency"]
        return DisputeReport(
            reference=dispute,
            charge=f"alias_{made['charge']}",
            state=made["state"],
            amount=Money(made["amount"], currency),
            reason="fraudulent",
            at=self.now(),
        )

    def invoice_report(self, invoice: str, *, whole: bool = False) -> InvoiceReport:
        made = self.invoices[invoice]
        order: PageOrder = self.subscriptions[made["subscription"]]["order"]
        return InvoiceReport(
            reference=invoice,
            subscription=made["subscription"],
            state=made["state"],
            amount=order.amount,
            payment_id=order.payment_id,
            charge=made["charge"],
            names=() if made["charge"] is None else (f"alias_{made['charge']}",),
            is_first=made["is_first"],
            at=self.now(),
        )

    def subscription_report(self, subscription: str) -> SubscriptionReport:
        made = self.subscriptions[subscription]
        order: PageOrder = made["order"]
        return SubscriptionReport(
            reference=subscription,
            state=made["state"],
            payment_id=order.payment_id,
            ends_with_period=made["ends_with_period"],
            at=self.now(),
        )


class Here:
    """The world of the running test."""

    world: World = World()


class Client:
    @classmethod
    def connect(cls, http: Any, account: Any) -> Client:
        return cls()


class AcmePay:
    name: ClassVar[str] = "acmepay"
    title: ClassVar[str] = "Acme Pay"
    amounts: ClassVar[Amounts] = Amounts(
        currency_codes("EUR USD JPY KWD"), lambda code: {"JPY": (0, 1), "KWD": (3, 10)}.get(code, (2, 1))
    )
    event_types: ClassVar[tuple[str, ...]] = ("changed",)
    needs_capture: ClassVar[bool] = False
    takes_instalments: ClassVar[bool] = True
    reports_payouts: ClassVar[bool] = True
    shortest_page_s: ClassVar[int] = 1800
    longest_page_s: ClassVar[int] = 86400

    @classmethod
    def connect(cls, client: Any, *, connected_account: str | None = None) -> Self:
        return cls()

    @property
    def world(self) -> World:
        return Here.world

    def _fails(self, call: str) -> Failure | None:
        self.world.calls.append(call)
        if self.world.failures and not isinstance(self.world.failures[0], Unknown):
            return self.world.failures.pop(0)
        return None

    def _lost(self) -> Failure | None:
        """The call took effect and its answer is lost."""
        return self.world.failures.pop(0) if self.world.failures else None

    async def open(self, order: PageOrder, *, key: str) -> PaymentReport | Failure:
        if (failure := self._fails("open")) is not None:
            return failure
        page = self.world.keys.get(key)
        if page is None:
            page = self.world.keys[key] = self.world.new("page")
            self.world.pages[page] = {"state": "open", "order": order}
        return self._lost() or self.world.page_report(page)

    async def close(self, page: str, *, key: str) -> PaymentReport | Absent | Failure:
        if (failure := self._fails("close")) is not None:
            return failure
        if page not in self.world.pages:
            return Absent()
        if self.world.pages[page]["state"] == "open":
            self.world.expire(page)
        return self._lost() or self.world.page_report(page)

    async def read(self, page: str) -> PaymentReport | Absent | Failure:
        if (failure := self._fails("read")) is not None:
            return failure
        return self.world.page_report(page) if page in self.world.pages else Absent()

    async def capture(self, page: str, *, key: str) -> PaymentReport | Absent | Failure:
        return await self.read(page)

    async def refund(
        self, order: RefundOrder, *, key: str, key_age_s: float
    ) -> RefundReport | RefundRefused | Absent | Failure:
        if (failure := self._fails("refund")) is not None:
            return failure
        world = self.world
        if order.charge not in world.charges:
            return Absent()
        if key not in world.keys:
            charge = world.charges[order.charge]
            left = charge["amount"] - world.refunded(order.charge) - world.withheld(order.charge)
            if any(each["charge"] == order.charge and each["state"] == "open" for each in world.disputes.values()):
                return RefundRefused("disputed", "the charge is disputed")
            if left <= 0:
                return RefundRefused("nothing_left", "the charge has been refunded")
            amount = left if order.amount is None else order.amount.amount
            if amount > left:
                return RefundRefused("too_much", f"only {left} is left")
            world.keys[key] = world.add_refund(order.charge, amount, key=key)
        return self._lost() or world.refund_report(world.keys[key])

    async def read_refund(self, reference: str, *, charge: str) -> RefundReport | Absent | Failure:
        if (failure := self._fails("read_refund")) is not None:
            return failure
        return self.world.refund_report(reference) if reference in self.world.refunds else Absent()

    async def list_refunds(self, charge: str) -> Refunds | Absent | Failure:
        if (failure := self._fails("list_refunds")) is not None:
            return failure
        mine = [name for name, each in self.world.refunds.items() if each["charge"] == charge]
        return Refunds(tuple(self.world.refund_report(name) for name in mine))

    async def list_disputes(self, charge: str) -> Disputes | Absent | Failure:
        if (failure := self._fails("list_disputes")) is not None:
            return failure
        mine = [name for name, each in self.world.disputes.items() if each["charge"] == charge]
        return Disputes(tuple(self.world.dispute_report(name) for name in mine))

    async def read_invoice(self, reference: str) -> InvoiceReport | Absent | Failure:
        return self.world.invoice_report(reference)

    async def list_invoices(self, subscription: str) -> tuple[InvoiceReport, ...] | Absent | Failure:
        mine = [name for name, each in self.world.invoices.items() if each["subscription"] == subscription]
        return tuple(self.world.invoice_report(name) for name in mine)

    async def read_subscription(self, reference: str) -> SubscriptionReport | Absent | Failure:
        return self.world.subscription_report(reference)

    async def end_subscription(
        self, reference: str, *, key: str, with_period: bool
    ) -> SubscriptionReport | Absent | Failure:
        if (failure := self._fails("end_subscription")) is not None:
            return failure
        made = self.world.subscriptions[reference]
        made["ends_with_period"] = with_period
        if not with_period:
            made["state"] = "ended"
        return self._lost() or self.world.subscription_report(reference)

    async def list_events(self, cursor: str | None, *, since: datetime) -> EventPage | Failure:
        if (failure := self._fails("list_events")) is not None:
            return failure
        start = int(cursor or 0)
        facts = self.world.log[start:]
        return EventPage(tuple(EventReading((fact,)) for fact in facts), str(start + len(facts)), False)

    async def list_balance(self, cursor: str | None, *, since: datetime, until: datetime) -> BalancePage | Failure:
        return BalancePage((), None, False)

    @classmethod
    def read_event(cls, type: str, payload: Mapping[str, Any]) -> EventReading:
        return EventReading()


DOWN = Unreachable("the service is down")
REFUSED = Refused("not possible", permanent=True)
LOST = Unknown("the answer was lost")


def our_id(text: str) -> UUID:
    return UUID(text)
