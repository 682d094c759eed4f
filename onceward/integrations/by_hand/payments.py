"""Payments that people record. There is no service to call: the page is the app's own, and money comes with
`tx.payments.record`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Self
from uuid import UUID

from onceward.money import Amounts, exponent
from onceward.payments.service import (
    BalancePage,
    Disputes,
    EventPage,
    EventReading,
    Failure,
    PageOrder,
    PaymentReport,
    RefundOrder,
    RefundRefused,
    RefundReport,
    Refunds,
)
from onceward.payments.without_instalments import WithoutInstalments
from onceward.services.outcome import Absent, Refused


class _Every(frozenset[str]):
    """Every currency: people take what they are given."""

    def __contains__(self, code: object) -> bool:
        return isinstance(code, str) and len(code) == 3 and code.isalpha()


@dataclass(frozen=True, slots=True)
class PaymentsByHand(WithoutInstalments):
    """Payments of one box office. What it answers follows from the question alone."""

    name: ClassVar[str] = "by_hand"
    title: ClassVar[str] = "by hand"
    amounts: ClassVar[Amounts] = Amounts(_Every(), lambda code: (exponent(code), 1))
    event_types: ClassVar[tuple[str, ...]] = ()
    needs_capture: ClassVar[bool] = False
    takes_instalments: ClassVar[bool] = False
    reports_payouts: ClassVar[bool] = False
    is_by_hand: ClassVar[bool] = True
    shortest_page_s: ClassVar[int] = 60
    longest_page_s: ClassVar[int] = 400 * 86400

    @classmethod
    def connect(cls, client: Any = None, *, connected_account: str | None = None) -> Self:
        if connected_account is not None:
            raise ValueError(f"connected account {connected_account!r}: payments by hand have no connected accounts")
        return cls()

    # -- pages

    async def open(self, order: PageOrder, *, key: str) -> PaymentReport | Failure:
        """Return the app's own page: it says where the money goes to, and with which reference."""
        if order.instalments is not None:
            return Refused("payments by hand take no instalments", permanent=True)
        return PaymentReport(
            state="open", payment_id=order.payment_id, page=str(order.payment_id), url=order.success_url
        )

    async def close(self, page: str, *, key: str) -> PaymentReport | Absent | Failure:
        return PaymentReport(state="expired", payment_id=UUID(page), page=page)

    async def read(self, page: str) -> PaymentReport | Absent | Failure:
        return PaymentReport(state="open", payment_id=UUID(page), page=page)

    async def capture(self, page: str, *, key: str) -> PaymentReport | Absent | Failure:
        return await self.read(page)

    # -- money that goes back: a person pays it, and records it with `tx.payments.settle`

    async def refund(
        self, order: RefundOrder, *, key: str, key_age_s: float
    ) -> RefundReport | RefundRefused | Absent | Failure:
        if order.amount is None:
            return Refused("a refund by hand needs an amount", permanent=True)
        return RefundReport(
            reference=key, charge=order.charge, state="pending", amount=order.amount, key=key,
            payment_id=order.payment_id,
        )  # fmt: skip

    async def read_refund(self, reference: str, *, charge: str) -> RefundReport | Absent | Failure:
        """Return nothing: only the person who pays the money back knows, and records it."""
        return Absent()

    async def list_refunds(self, charge: str) -> Refunds | Absent | Failure:
        return Refunds(())

    async def list_disputes(self, charge: str) -> Disputes | Absent | Failure:
        return Disputes(())

    # -- what happened

    async def list_events(self, cursor: str | None, *, since: datetime) -> EventPage | Failure:
        return EventPage((), cursor or "none", has_more=False)

    async def list_balance(self, cursor: str | None, *, since: datetime, until: datetime) -> BalancePage | Failure:
        return BalancePage((), None, has_more=False)

    @classmethod
    def read_event(cls, type: str, payload: Mapping[str, Any]) -> EventReading:
        return EventReading()
