"""Convert Stripe's objects and events to the reports of `onceward.payments`. Everything here is pure.

The charge of a report is the payment intent (`pi_...`): sessions, refunds, disputes and invoices all name it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, Literal
from uuid import UUID

from onceward.integrations.stripe.amounts import from_stripe
from onceward.integrations.stripe.api import KEY_METADATA
from onceward.money import Money
from onceward.payments.service import (
    PAYMENT_ID,
    BalanceLine,
    DisputeReport,
    DisputeState,
    EventReading,
    Fact,
    InvoiceReport,
    InvoiceState,
    PaymentReport,
    PayoutReport,
    RefundReport,
    RefundsChanged,
    RefundState,
    SubscriptionReport,
    SubscriptionState,
)
from onceward.services.call import inner, objects

Json = Mapping[str, Any]

BalanceKind = Literal[
    "payment", "refund", "refund_failed", "dispute", "dispute_won", "fee", "payout", "payout_failed", "other"
]
REFUND_EVENTS_FROM = "2024-10-28"
"""From this API version on, every refund has `refund.created`. Before, some have `charge.refunded` only."""

REFUND_STATES: Final[dict[str, RefundState]] = {
    "succeeded": "succeeded",
    "pending": "pending",
    "requires_action": "pending",
    "failed": "failed",
    "canceled": "failed",
}
DISPUTE_STATES: Final[dict[str, DisputeState]] = {
    "warning_needs_response": "inquiry",
    "warning_under_review": "inquiry",
    "warning_closed": "won",
    "needs_response": "open",
    "under_review": "open",
    "won": "won",
    "lost": "lost",
    # The bank closed it because of a refund, which is reported as such.
    "prevented": "won",
}
SUBSCRIPTION_STATES: Final[dict[str, SubscriptionState]] = {
    "incomplete": "incomplete",
    "trialing": "active",
    "active": "active",
    "past_due": "late",
    "unpaid": "unpaid",
    "paused": "unpaid",
    "canceled": "ended",
    "incomplete_expired": "ended",
}
INVOICE_STATES: Final[dict[str, InvoiceState]] = {
    "draft": "open",
    "open": "open",
    "paid": "paid",
    "uncollectible": "void",
    "void": "void",
}
PAYOUT_STATES: Final[dict[str, Literal["paid", "failed"]]] = {"paid": "paid", "failed": "failed", "canceled": "failed"}
BALANCE_KINDS: Final[dict[str, BalanceKind]] = {
    "charge": "payment",
    "payment": "payment",
    "refund": "refund",
    "payment_refund": "refund",
    "refund_failure": "refund_failed",
    "payment_failure_refund": "refund_failed",
    "dispute": "dispute",
    "dispute_reversal": "dispute_won",
    "stripe_fee": "fee",
    "fee": "fee",
    "payout": "payout",
    "payout_failure": "payout_failed",
    "payout_cancel": "payout_failed",
    "payout_reversal": "payout_failed",
}


def session_report(session: Json) -> PaymentReport:
    """Return how a checkout session stands. If its payment intent is expanded, also why a late payment failed."""
    intent = inner(session, "payment_intent")
    subscription = identifier(session.get("subscription"))
    report = PaymentReport(
        state="open",
        payment_id=our_id(session),
        page=str(session["id"]),
        url=session.get("url"),
        charge=None if subscription else identifier(session.get("payment_intent")),
        names=_names(intent),
        subscription=subscription,
    )
    match session.get("status"):
        case "open":
            return report
        case "expired":
            return replace(report, state="expired")
        case "complete" if session.get("payment_status") == "unpaid":
            if intent.get("status") in ("requires_payment_method", "canceled"):
                return replace(report, state="declined", failure=_failure(intent))
            return replace(report, state="processing")
        case "complete":
            received = intent.get("amount_received") or session.get("amount_total") or 0
            return replace(report, state="paid", received=money(received, session))
        case other:
            raise ValueError(f"status of checkout session {session['id']} is {other!r}")


def intent_report(intent: Json) -> PaymentReport | None:
    """Return how a payment intent stands; None if it is not of a page of ours.

    The payment intents of a subscription carry no metadata of ours: their money is reported by the invoice.
    """
    if our_id(intent) is None:
        return None
    report = PaymentReport(
        state="declined",
        payment_id=our_id(intent),
        charge=str(intent["id"]),
        names=_names(intent),
        is_open=True,
        failure=_failure(intent),
    )
    if intent.get("status") == "succeeded":
        received = money(intent["amount_received"], intent)
        return replace(report, state="paid", received=received, is_open=False, failure=None)
    return report


def charge_report(charge: Json) -> PaymentReport | None:
    """Return how a charge stands; None if it is not of ours. It carries the metadata of its payment intent."""
    if our_id(charge) is None or charge.get("status") != "succeeded" or charge.get("captured") is False:
        return None
    return PaymentReport(
        state="paid",
        payment_id=our_id(charge),
        charge=_charge_of(charge),
        names=(str(charge["id"]),),
        received=money(charge.get("amount_captured") or charge["amount"], charge),
    )


def refund_report(refund: Json) -> RefundReport:
    state = REFUND_STATES[str(refund["status"])]
    failure = (refund.get("failure_reason") or str(refund["status"])) if state == "failed" else None
    return RefundReport(
        reference=str(refund["id"]),
        charge=_charge_of(refund),
        state=state,
        amount=money(refund["amount"], refund),
        key=inner(refund, "metadata").get(KEY_METADATA),
        failure=failure,
        payment_id=our_id(refund),
    )


def dispute_report(dispute: Json) -> DisputeReport:
    """Return how a dispute stands. Its balance transactions say what Stripe took, what it gave back and its fee."""
    state, currency = DISPUTE_STATES[str(dispute["status"])], str(dispute["currency"])
    moved = objects(dispute, "balance_transactions")
    # A balance in another currency than the charge: Stripe does not say how much of the charge was taken.
    is_known = "balance_transactions" in dispute and all(each.get("currency") == currency for each in moved)
    return DisputeReport(
        reference=str(dispute["id"]),
        charge=_charge_of(dispute),
        state=state,
        amount=money(dispute["amount"], dispute),
        withheld=money(max(0, -sum(each["amount"] for each in moved)), dispute) if is_known else None,
        fee=_fee(sum(each.get("fee") or 0 for each in moved), currency) if is_known else None,
        reason=str(dispute.get("reason") or ""),
    )


def invoice_report(invoice: Json) -> InvoiceReport | None:
    """Return how an invoice of a subscription stands; None for an invoice without one."""
    details = inner(invoice, "parent", "subscription_details") or inner(invoice, "subscription_details")
    subscription = identifier(details.get("subscription") or invoice.get("subscription"))
    if subscription is None:
        return None
    state = INVOICE_STATES[str(invoice["status"])]
    if state == "open" and invoice.get("attempt_count"):
        state = "failed"
    lines = objects(inner(invoice, "lines"), "data")
    return InvoiceReport(
        reference=str(invoice["id"]),
        subscription=subscription,
        state=state,
        amount=money(invoice["amount_paid" if state == "paid" else "amount_due"], invoice),
        payment_id=our_id(details),
        charge=_invoice_charge(invoice) if state == "paid" else None,
        is_first=invoice.get("billing_reason") == "subscription_create",
        period_end=moment(inner(lines[0], "period").get("end")) if lines else None,
        next_try_at=moment(invoice.get("next_payment_attempt")),
    )


def subscription_report(subscription: Json) -> SubscriptionReport:
    items = objects(inner(subscription, "items"), "data")
    period_end = subscription.get("current_period_end") or (items[0].get("current_period_end") if items else None)
    return SubscriptionReport(
        reference=str(subscription["id"]),
        state=SUBSCRIPTION_STATES[str(subscription["status"])],
        payment_id=our_id(subscription),
        ends_with_period=bool(subscription.get("cancel_at_period_end")),
        period_end=moment(period_end),
    )


def payout_report(payout: Json) -> PayoutReport:
    return PayoutReport(
        reference=str(payout["id"]),
        state=PAYOUT_STATES.get(str(payout["status"]), "pending"),
        amount=money(payout["amount"], payout),
        arrives_at=moment(payout.get("arrival_date")),
    )


def balance_line(transaction: Json) -> BalanceLine:
    """Return a balance transaction whose source is expanded."""
    source, kind = inner(transaction, "source"), str(transaction["type"])
    if kind == "adjustment":
        kind = str(transaction.get("reporting_category"))
    is_payment = source.get("object") in ("charge", "refund", "dispute")
    return BalanceLine(
        reference=str(transaction["id"]),
        kind=BALANCE_KINDS.get(kind, "other"),
        amount=money(transaction["amount"], transaction),
        fee=money(transaction["fee"], transaction),
        source=identifier(transaction.get("source")),
        charge=identifier(source.get("payment_intent") or source.get("charge")) if is_payment else None,
        at=moment(transaction["created"]) or datetime.min.replace(tzinfo=UTC),
    )


# -- events
# ----------------------------------------------------------------------------------------------------------------


def _failed_late(session: Json) -> PaymentReport:
    return replace(session_report(session), state="declined", failure="async_payment_failed")


_READERS: Final[dict[str, Callable[[Json], Fact | None]]] = {
    "checkout.session.completed": session_report,
    "checkout.session.async_payment_succeeded": session_report,
    "checkout.session.async_payment_failed": _failed_late,
    "checkout.session.expired": session_report,
    "payment_intent.succeeded": intent_report,
    "payment_intent.payment_failed": intent_report,
    "charge.succeeded": charge_report,
    "charge.refunded": lambda charge: RefundsChanged(_charge_of(charge), our_id(charge)),
    "charge.refund.updated": refund_report,
    "refund.created": refund_report,
    "refund.updated": refund_report,
    "refund.failed": refund_report,
    "charge.dispute.created": dispute_report,
    "charge.dispute.updated": dispute_report,
    "charge.dispute.funds_withdrawn": dispute_report,
    "charge.dispute.funds_reinstated": dispute_report,
    "charge.dispute.closed": dispute_report,
    "invoice.paid": invoice_report,
    "invoice.payment_failed": invoice_report,
    "invoice.voided": invoice_report,
    "invoice.marked_uncollectible": invoice_report,
    "customer.subscription.updated": subscription_report,
    "customer.subscription.deleted": subscription_report,
    "payout.created": payout_report,
    "payout.paid": payout_report,
    "payout.failed": payout_report,
    "payout.canceled": payout_report,
}
EVENT_TYPES = tuple(_READERS)


def read_event(type: str, event: Json) -> EventReading:
    """Return what an event says. Raises ValueError for an object that carries our id and cannot be read."""
    account, about = identifier(event.get("account")), inner(event, "data", "object")
    read = _READERS.get(type)
    if read is None or (type == "charge.refunded" and str(event.get("api_version") or "") >= REFUND_EVENTS_FROM):
        return EventReading((), account)
    try:
        fact = read(about)
    except (KeyError, TypeError, ValueError) as error:
        if our_id(about) is None and our_id(inner(about, "parent", "subscription_details")) is None:
            return EventReading((), account)
        raise ValueError(f"{type}: {about.get('object')} {about.get('id')} cannot be read: {error!r}") from error
    if fact is None:
        return EventReading((), account)
    if not isinstance(fact, RefundsChanged):
        fact = replace(fact, at=moment(event.get("created")))
    return EventReading((fact,), account)


# -- values
# ----------------------------------------------------------------------------------------------------------------


def money(amount: int, owner: Json) -> Money:
    """Return an amount of Stripe in the currency of the object that it belongs to."""
    code = str(owner["currency"]).upper()
    return Money(from_stripe(amount, code), code)


def our_id(owner: Json) -> UUID | None:
    """Return the payment id in the metadata of an object."""
    try:
        return UUID(str(inner(owner, "metadata").get(PAYMENT_ID)))
    except ValueError:
        return None


def identifier(value: Any) -> str | None:
    """Return the id in a field that has either an id or the object itself."""
    if isinstance(value, Mapping):
        value = value.get("id")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return str(value) if value else None  # pyright: ignore[reportUnknownArgumentType]


def moment(seconds: Any) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(int(seconds), UTC)


def _names(intent: Json) -> tuple[str, ...]:
    charge = identifier(intent.get("latest_charge"))
    return () if charge is None else (charge,)


def _charge_of(owner: Json) -> str:
    """Return the payment intent of a refund, dispute or charge, or the charge of an old payment without one."""
    is_charge = owner.get("object") == "charge"
    charge = identifier(owner.get("payment_intent")) or identifier(owner.get("id" if is_charge else "charge"))
    if charge is None:
        raise ValueError(f"{owner.get('object')} {owner.get('id')} names no charge")
    return charge


def _invoice_charge(invoice: Json) -> str | None:
    """Return the payment intent that paid an invoice. Events do not contain it from API version 2025-03-31 on."""
    for each in objects(inner(invoice, "payments"), "data"):
        if each.get("status") == "paid":
            return identifier(inner(each, "payment").get("payment_intent"))
    return identifier(invoice.get("payment_intent"))


def _failure(intent: Json) -> str | None:
    error = inner(intent, "last_payment_error")
    code = error.get("decline_code") or error.get("code") or intent.get("cancellation_reason")
    return None if code is None else str(code)


def _fee(amount: int, currency: str) -> Money | None:
    """Return a fee, or None if our units cannot hold it."""
    try:
        return Money(from_stripe(amount, currency), currency.upper())
    except ValueError:
        return None
