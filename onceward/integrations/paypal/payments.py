"""PayPal as a payment service: pages are orders, which we capture after the buyer has approved them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Self

from onceward.integrations.paypal import payment_reports as reports
from onceward.integrations.paypal.amounts import AMOUNTS
from onceward.integrations.paypal.client import PayPal
from onceward.money import Amounts
from onceward.payments.answers import read_answer, read_events, read_list, read_lookup
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
from onceward.services.outcome import Absent, Accepted, Refused, ServiceAnswer

REFUND_KEY_LIFETIME_S = 44 * 86400.0
"""One day less than PayPal's 45, because a call may wait and clocks differ."""
EVENT_OVERLAP = timedelta(minutes=10)
"""PayPal may list an event some minutes late, so the next list begins before the end of the last one."""
MOST_DAYS_OF_TRANSACTIONS = 31
DECLINES = frozenset(
    {
        "INSTRUMENT_DECLINED",
        "TRANSACTION_REFUSED",
        "TRANSACTION_LIMIT_EXCEEDED",
        "PAYER_CANNOT_PAY",
        "PAYER_ACTION_REQUIRED",
        "PAYER_ACCOUNT_RESTRICTED",
        "PAYER_ACCOUNT_LOCKED_OR_CLOSED",
        "REDIRECT_PAYER_FOR_ALTERNATE_FUNDING",
        "MAX_NUMBER_OF_PAYMENT_ATTEMPTS_EXCEEDED",
        "COMPLIANCE_VIOLATION",
    }
)
"""Why a capture may fail because of the buyer, who may then choose another way to pay."""
_REFUSALS: Mapping[str, Any] = {
    "CAPTURE_FULLY_REFUNDED": "nothing_left",
    "REFUND_AMOUNT_EXCEEDED": "too_much",
    "TRANSACTION_DISPUTED": "disputed",
    "REFUND_NOT_PERMITTED_DUE_TO_CHARGEBACK": "disputed",
    "REFUND_FAILED_INSUFFICIENT_FUNDS": "no_balance",
}


@dataclass(frozen=True, slots=True)
class PayPalPayments(WithoutInstalments):
    """Payments of one PayPal account."""

    name: ClassVar[str] = "paypal"
    title: ClassVar[str] = "PayPal"
    amounts: ClassVar[Amounts] = AMOUNTS
    event_types: ClassVar[tuple[str, ...]] = reports.EVENT_TYPES
    needs_capture: ClassVar[bool] = True
    takes_instalments: ClassVar[bool] = False
    reports_payouts: ClassVar[bool] = False
    shortest_page_s: ClassVar[int] = 60
    # PayPal forgets an order that nobody approved after three hours.
    longest_page_s: ClassVar[int] = 3 * 3600

    paypal: PayPal

    @classmethod
    def connect(cls, client: Any, *, connected_account: str | None = None) -> Self:
        if not isinstance(client, PayPal):
            raise TypeError(f"client is {type(client).__name__}, not the client of PayPal")
        if connected_account is not None:
            raise ValueError(f"connected account {connected_account!r}: PayPal accounts cannot be connected here")
        return cls(client)

    # -- pages

    async def open(self, order: PageOrder, *, key: str) -> PaymentReport | Failure:
        if order.instalments is not None:
            return Refused("PayPal takes no instalments", permanent=True)
        try:
            answer = await self.paypal.create_order(
                key=key,
                amount_minor=order.amount.amount,
                currency=order.amount.currency,
                custom_id=str(order.payment_id),
                return_url=order.success_url,
                cancel_url=order.cancel_url,
                description=order.title,
                locale=order.locale,
            )
        except ValueError as error:
            return Refused(str(error), permanent=True)
        if not isinstance(answer, Accepted):
            return answer
        opened = read_answer(reports.order_report, answer)
        if not answer.is_replay or not isinstance(opened, PaymentReport) or opened.page is None:
            return opened
        current = await self.read(opened.page)
        if isinstance(current, Absent):
            return replace(opened, state="expired")
        return replace(current, url=current.url or opened.url) if isinstance(current, PaymentReport) else current

    async def close(self, page: str, *, key: str) -> PaymentReport | Absent | Failure:
        return await self.read(page)

    async def read(self, page: str) -> PaymentReport | Absent | Failure:
        return read_lookup(reports.order_report, await self.paypal.get_order(page), _is_missing)

    async def capture(self, page: str, *, key: str) -> PaymentReport | Absent | Failure:
        answer = await self.paypal.capture_order(page, key=key)
        if isinstance(answer, Refused) and not answer.account:
            issue = str(answer.detail.get("issue"))
            if issue in DECLINES:
                return PaymentReport(state="declined", payment_id=None, page=page, is_open=True, failure=issue.lower())
            # Not approved, or the answer is an order with a declined capture: the order says how it stands.
            if issue == "ORDER_NOT_APPROVED" or "purchase_units" in answer.detail:
                return await self.read(page)
        if isinstance(answer, Accepted) and answer.is_replay:
            return await self.read(page)
        return read_lookup(reports.order_report, answer, _is_missing)

    # -- money that goes back

    async def refund(
        self, order: RefundOrder, *, key: str, key_age_s: float
    ) -> RefundReport | RefundRefused | Absent | Failure:
        if key_age_s >= REFUND_KEY_LIFETIME_S:
            listed = await self.list_refunds(order.charge)
            if not isinstance(listed, Refunds):
                return listed
            for each in listed.listed:
                if each.key == key:
                    return each
        try:
            answer = await self.paypal.refund_capture(
                order.charge,
                key=key,
                amount_minor=None if order.amount is None else order.amount.amount,
                currency=None if order.amount is None else order.amount.currency,
            )
        except ValueError as error:
            return Refused(str(error), permanent=True)
        if isinstance(answer, Refused) and (why := _REFUSALS.get(str(answer.detail.get("issue")))) is not None:
            return RefundRefused(why, answer.reason)
        report = read_lookup(reports.refund_report, answer, _is_missing)
        if isinstance(report, RefundReport) and isinstance(answer, Accepted) and answer.is_replay:
            return await self.read_refund(report.reference, charge=order.charge)
        return report

    async def read_refund(self, reference: str, *, charge: str) -> RefundReport | Absent | Failure:
        return read_lookup(reports.refund_report, await self.paypal.get_refund(reference), _is_missing)

    async def list_refunds(self, charge: str) -> Refunds | Absent | Failure:
        listed = read_list(reports.refund_report, await self.paypal.list_refunds(charge), "refunds", _is_missing)
        return Refunds(listed) if isinstance(listed, tuple) else listed

    async def list_disputes(self, charge: str) -> Disputes | Absent | Failure:
        listed = read_list(reports.dispute_report, await self.paypal.list_disputes(charge), "disputes", _is_missing)
        return Disputes(listed) if isinstance(listed, tuple) else listed

    # -- what happened

    async def list_events(self, cursor: str | None, *, since: datetime) -> EventPage | Failure:
        """The cursor is the period that is being read, and the path of its next page."""
        start, end, path = _read_cursor(cursor, since)
        answer = await (
            self.paypal.next_events(path) if path else self.paypal.list_events(start=max(start, since), end=end)
        )
        if path and isinstance(answer, Refused) and answer.permanent:
            answer = await self.paypal.list_events(start=max(start, since), end=end)
        if not isinstance(answer, Accepted):
            return answer
        # PayPal lists the newest first; events of one moment keep the order in which they happened.
        events: list[Mapping[str, Any]] = list(reversed(answer.detail["events"]))
        events.sort(key=lambda each: str(each.get("create_time")))
        readings = read_events(self.read_event, events, "event_type")
        if isinstance(readings, Refused):
            return readings
        following = answer.detail["next"]
        where = (start, end, following) if following else (end - EVENT_OVERLAP, None, "")
        return EventPage(readings, _write_cursor(*where), has_more=bool(following))

    async def list_balance(self, cursor: str | None, *, since: datetime, until: datetime) -> BalancePage | Failure:
        """The cursor is the start of the current 31 days, and the number of the page."""
        day, _, number = (cursor or "").partition(" ")
        start, page = (datetime.fromisoformat(day), int(number)) if cursor else (since, 1)
        end = min(until, start + timedelta(days=MOST_DAYS_OF_TRANSACTIONS))
        answer = await self.paypal.list_transactions(start=start, end=end, page=page)
        lines = read_list(reports.balance_line, answer, "transaction_details", _is_missing)
        if isinstance(lines, Absent):
            return BalancePage((), cursor, has_more=False)
        if not isinstance(answer, Accepted) or not isinstance(lines, tuple):
            return lines if not isinstance(lines, tuple) else BalancePage(lines, cursor, has_more=False)
        if page < int(answer.detail.get("total_pages") or 0):
            return BalancePage(lines, f"{start.isoformat()} {page + 1}", has_more=True)
        return BalancePage(lines, f"{end.isoformat()} 1", has_more=end < until)

    @classmethod
    def read_event(cls, type: str, payload: Mapping[str, Any]) -> EventReading:
        return reports.read_event(type, payload)


def _read_cursor(cursor: str | None, since: datetime) -> tuple[datetime, datetime, str]:
    now = datetime.now(UTC)
    if cursor is None:
        return since, now, ""
    start, end, path = [*cursor.split(" ", 2), "", ""][:3]
    return datetime.fromisoformat(start), datetime.fromisoformat(end) if end else now, path


def _write_cursor(start: datetime, end: datetime | None, path: str) -> str:
    return start.isoformat() if end is None else f"{start.isoformat()} {end.isoformat()} {path}"


def _is_missing(answer: ServiceAnswer) -> bool:
    return isinstance(answer, Refused) and answer.detail.get("status") == 404
