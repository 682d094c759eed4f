"""Stripe as a payment service: pages are checkout sessions, instalments are subscriptions."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, ClassVar, Self

from onceward.integrations.stripe import payment_reports as reports
from onceward.integrations.stripe.amounts import AMOUNTS, to_stripe
from onceward.integrations.stripe.client import Stripe
from onceward.money import Amounts
from onceward.payments.answers import read_answer, read_events, read_list, read_lookup
from onceward.payments.service import (
    PAYMENT_ID,
    BalancePage,
    Disputes,
    EventPage,
    EventReading,
    Failure,
    InvoiceReport,
    Line,
    PageOrder,
    PaymentReport,
    RefundOrder,
    RefundRefused,
    RefundReport,
    Refunds,
    SubscriptionReport,
)
from onceward.services.outcome import Absent, Accepted, Refused, ServiceAnswer

LOCALES = (
    " bg cs da de el en en-GB es es-419 et fi fil fr fr-CA hr hu id it ja ko lt lv ms mt nb nl pl pt pt-BR ro ru sk"
    " sl sv th tr vi zh zh-HK zh-TW "
)
"""The languages of Stripe's page. Stripe refuses any other."""
MOST_STORED_FAILURES = 3
"""How many failures of Stripe, which it stores under a key, one call goes around."""
_REFUSALS: Mapping[str, Any] = {
    "charge_already_refunded": "nothing_left",
    "amount_too_large": "too_much",
    "charge_disputed": "disputed",
    "balance_insufficient": "no_balance",
    "insufficient_funds": "no_balance",
}


@dataclass(frozen=True, slots=True)
class StripePayments:
    """Payments of one Stripe account."""

    name: ClassVar[str] = "stripe"
    title: ClassVar[str] = "Stripe"
    amounts: ClassVar[Amounts] = AMOUNTS
    event_types: ClassVar[tuple[str, ...]] = reports.EVENT_TYPES
    needs_capture: ClassVar[bool] = False
    takes_instalments: ClassVar[bool] = True
    reports_payouts: ClassVar[bool] = True
    # Stripe takes 30 minutes to 24 hours from when the call arrives.
    shortest_page_s: ClassVar[int] = 31 * 60
    longest_page_s: ClassVar[int] = 24 * 3600 - 60

    stripe: Stripe

    @classmethod
    def connect(cls, client: Any, *, connected_account: str | None = None) -> Self:
        if not isinstance(client, Stripe):
            raise TypeError(f"client is {type(client).__name__}, not the client of Stripe")
        return cls(client if connected_account is None else replace(client, account=connected_account))

    # -- pages

    async def open(self, order: PageOrder, *, key: str) -> PaymentReport | Failure:
        try:
            items = _items(order)
        except ValueError as error:
            return Refused(str(error), permanent=True)
        answer = await _past_stored_failures(
            key,
            lambda call_key: self.stripe.create_checkout_session(
                key=call_key,
                line_items=items,
                success_url=order.success_url,
                cancel_url=order.cancel_url,
                client_reference_id=str(order.payment_id),
                customer_email=order.email,
                metadata={**order.metadata, PAYMENT_ID: str(order.payment_id)},
                mode="payment" if order.instalments is None else "subscription",
                expires_at=int(order.expires_at.timestamp()),
                locale=_locale(order.locale),
            ),
        )
        if not isinstance(answer, Accepted):
            return answer
        opened = read_answer(reports.session_report, answer)
        if not answer.is_replay or not isinstance(opened, PaymentReport) or opened.page is None:
            return opened
        current = await self.read(opened.page)
        if isinstance(current, Absent):
            return Refused(f"Stripe has forgotten session {opened.page}", permanent=True)
        return replace(current, url=current.url or opened.url) if isinstance(current, PaymentReport) else current

    async def close(self, page: str, *, key: str) -> PaymentReport | Absent | Failure:
        answer = await self.stripe.expire_checkout_session(page, key=key)
        if isinstance(answer, Accepted):
            return read_answer(reports.session_report, answer)
        # Not open any more: paid, expired, or a bank debit that is under way.
        if isinstance(answer, Refused) and answer.permanent and not answer.account:
            return await self.read(page)
        return answer

    async def read(self, page: str) -> PaymentReport | Absent | Failure:
        answer = await self.stripe.retrieve_checkout_session(page, expand=["payment_intent"])
        return read_lookup(reports.session_report, answer, _is_missing)

    async def capture(self, page: str, *, key: str) -> PaymentReport | Absent | Failure:
        return await self.read(page)

    # -- money that goes back

    async def refund(
        self, order: RefundOrder, *, key: str, key_age_s: float
    ) -> RefundReport | RefundRefused | Absent | Failure:
        try:
            amount = None if order.amount is None else to_stripe(order.amount.amount, order.amount.currency)
        except ValueError as error:
            return Refused(str(error), permanent=True)
        ours = {PAYMENT_ID: str(order.payment_id), "onceward_refund": str(order.refund_id)}
        metadata = {"reason": order.reason[:500], **order.metadata, **ours}
        answer = await _past_stored_failures(
            key,
            lambda call_key: self.stripe.create_refund(
                key=call_key,
                mark=key,
                **_named(order.charge),
                amount_minor=amount,
                metadata=metadata,
                # A failure that Stripe stored may have come after the refund was made: look for it before the next key.
                key_age_s=key_age_s if call_key == key else math.inf,
            ),
        )
        if isinstance(answer, Refused):
            why = _REFUSALS.get(str(answer.detail.get("code")))
            if why is None and answer.permanent and answer.detail.get("param") == "amount":
                why = "too_much"
            if why is not None:
                return RefundRefused(why, answer.reason)
        report = read_lookup(reports.refund_report, answer, _is_missing)
        if isinstance(report, RefundReport) and isinstance(answer, Accepted) and answer.is_replay:
            return await self.read_refund(report.reference, charge=order.charge)
        return report

    async def read_refund(self, reference: str, *, charge: str) -> RefundReport | Absent | Failure:
        return read_lookup(reports.refund_report, await self.stripe.retrieve_refund(reference), _is_missing)

    async def list_refunds(self, charge: str) -> Refunds | Absent | Failure:
        listed = read_list(
            reports.refund_report, await self.stripe.list_refunds(**_named(charge)), "refunds", _is_missing
        )
        return Refunds(listed[::-1]) if isinstance(listed, tuple) else listed

    async def list_disputes(self, charge: str) -> Disputes | Absent | Failure:
        listed = read_list(
            reports.dispute_report, await self.stripe.list_disputes(**_named(charge)), "disputes", _is_missing
        )
        return Disputes(listed[::-1]) if isinstance(listed, tuple) else listed

    # -- instalments

    async def read_invoice(self, reference: str) -> InvoiceReport | Absent | Failure:
        report = read_lookup(reports.invoice_report, await self.stripe.retrieve_invoice(reference), _is_missing)
        return Absent() if report is None else report

    async def list_invoices(self, subscription: str) -> tuple[InvoiceReport, ...] | Absent | Failure:
        listed = read_list(
            reports.invoice_report, await self.stripe.list_invoices(subscription=subscription), "invoices", _is_missing
        )
        if not isinstance(listed, tuple):
            return listed
        return tuple(each for each in reversed(listed) if each is not None)

    async def read_subscription(self, reference: str) -> SubscriptionReport | Absent | Failure:
        return read_lookup(reports.subscription_report, await self.stripe.retrieve_subscription(reference), _is_missing)

    async def end_subscription(
        self, reference: str, *, key: str, with_period: bool
    ) -> SubscriptionReport | Absent | Failure:
        answer = await self.stripe.cancel_subscription(reference, key=key, at_period_end=with_period)
        # Stripe refuses to change a subscription that has ended.
        is_refused = isinstance(answer, Refused) and answer.permanent and not answer.account
        if is_refused or (isinstance(answer, Accepted) and answer.is_replay):
            current = await self.read_subscription(reference)
            if not is_refused or not isinstance(current, SubscriptionReport) or current.state == "ended":
                return current
        return read_lookup(reports.subscription_report, answer, _is_missing)

    # -- what happened

    async def list_events(self, cursor: str | None, *, since: datetime) -> EventPage | Failure:
        after = None if cursor is None or not cursor.startswith("evt_") else cursor
        # Stripe filters by at most 20 types, so the page has all types, and other events are left out here.
        answer = await self.stripe.list_events(after=after, created_from=int(since.timestamp()))
        if after is not None and _is_missing(answer):
            answer = await self.stripe.list_events(created_from=int(since.timestamp()))
        if not isinstance(answer, Accepted):
            return answer
        events: list[Mapping[str, Any]] = answer.detail["events"]
        readings = read_events(self.read_event, events, "type")
        if isinstance(readings, Refused):
            return readings
        newest = str(events[-1]["id"]) if events else (cursor or f"since {int(since.timestamp())}")
        return EventPage(readings, newest, bool(answer.detail["has_more"]))

    async def list_balance(self, cursor: str | None, *, since: datetime, until: datetime) -> BalancePage | Failure:
        answer = await self.stripe.list_balance_transactions(
            after=cursor, created_from=int(since.timestamp()), created_until=int(until.timestamp())
        )
        if not isinstance(answer, Accepted):
            return answer
        lines = read_list(reports.balance_line, answer, "balance_transactions", _is_missing)
        if not isinstance(lines, tuple):
            return lines if not isinstance(lines, Absent) else BalancePage((), cursor, has_more=False)
        return BalancePage(lines, lines[-1].reference if lines else cursor, bool(answer.detail["has_more"]))

    @classmethod
    def read_event(cls, type: str, payload: Mapping[str, Any]) -> EventReading:
        return reports.read_event(type, payload)


async def _past_stored_failures(key: str, call: Callable[[str], Awaitable[ServiceAnswer]]) -> ServiceAnswer:
    """Make a call under its key. If Stripe stored a failure of its own under the key, go on under the next one.

    Stripe repeats a stored 500 for 24 hours, whether or not anything was made. A page that was made twice is harmless:
    only one is ever shown to the buyer.
    """
    answer = await call(key)
    for number in range(2, MOST_STORED_FAILURES + 2):
        if not (isinstance(answer, Refused) and not answer.permanent and answer.detail.get("replayed")):
            break
        answer = await call(f"{key}:{number}")
    return answer


def _is_missing(answer: ServiceAnswer) -> bool:
    return isinstance(answer, Refused) and answer.detail.get("code") == "resource_missing"


def _named(charge: str) -> dict[str, Any]:
    """Return the parameter that names a charge. Payments without a payment intent have a `ch_` or `py_` id."""
    return {"payment_intent" if charge.startswith("pi_") else "charge": charge}


def _items(order: PageOrder) -> list[dict[str, Any]]:
    """Return the line items of a page. They add up to the amount."""
    lines = order.lines or (Line(order.title, order.amount),)
    if sum(each.amount.amount for each in lines) != order.amount.amount:
        raise ValueError(f"the lines of payment {order.payment_id} do not add up to {order.amount}")
    return [_item(each, order) for each in lines]


def _item(line: Line, order: PageOrder) -> dict[str, Any]:
    total = to_stripe(line.amount.amount, line.amount.currency)
    step = to_stripe(AMOUNTS.step(line.amount.currency), line.amount.currency)
    # A price that is not the same for every piece: one line with the number in its name.
    is_even = total % (line.quantity * step) == 0
    price: dict[str, Any] = {
        "currency": order.amount.currency.lower(),
        "unit_amount": total // line.quantity if is_even else total,
        "product_data": {"name": line.title if is_even else f"{line.quantity} × {line.title}"},
    }
    if order.instalments is not None:
        price["recurring"] = {"interval": "month", "interval_count": order.instalments.months}
    return {"quantity": line.quantity if is_even else 1, "price_data": price}


def _locale(locale: str | None) -> str | None:
    """Return the closest language of Stripe's page, or None: then the browser's language is used."""
    if locale is None:
        return None
    tag = locale.replace("_", "-")
    return next((each for each in (tag, tag.partition("-")[0]) if f" {each} " in LOCALES), None)
