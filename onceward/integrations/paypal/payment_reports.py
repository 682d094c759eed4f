"""Convert PayPal's objects and events to the reports of `onceward.payments`. Everything here is pure.

A page is an order, a charge is a capture. Our payment id is the `custom_id` of the order's purchase unit, and of its
captures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from onceward.integrations.paypal.amounts import to_minor
from onceward.integrations.paypal.client import capture_of, first_capture
from onceward.money import Money
from onceward.payments.service import (
    BalanceLine,
    DisputeReport,
    DisputeState,
    EventReading,
    Fact,
    PaymentReport,
    PaymentState,
    RefundReport,
    RefundState,
)
from onceward.services.call import inner, objects

Json = Mapping[str, Any]

ORDER_STATES: Final[dict[str, PaymentState]] = {
    "CREATED": "open",
    "SAVED": "open",
    "PAYER_ACTION_REQUIRED": "open",
    "APPROVED": "approved",
    "VOIDED": "expired",
}
"""The states of an order without a capture."""
CAPTURE_STATES: Final[dict[str, PaymentState]] = {
    "COMPLETED": "paid",
    "PARTIALLY_REFUNDED": "paid",
    "REFUNDED": "paid",
    "REVERSED": "paid",
    "PENDING": "processing",
    "DECLINED": "declined",
    "DENIED": "declined",
    "FAILED": "declined",
}
REFUND_STATES: Final[dict[str, RefundState]] = {
    "COMPLETED": "succeeded",
    "PENDING": "pending",
    "FAILED": "failed",
    "CANCELLED": "failed",
}
OUTCOMES: Final[dict[str, DisputeState]] = {
    "RESOLVED_SELLER_FAVOUR": "won",
    # PayPal pays the buyer itself.
    "RESOLVED_WITH_PAYOUT": "won",
    "CANCELED_BY_BUYER": "won",
    "DENIED": "won",
    "NONE": "won",
    "RESOLVED_BUYER_FAVOUR": "lost",
    "ACCEPTED": "lost",
}
_FEES = frozenset({"DISPUTE_SETTLEMENT_FEE", "DISPUTE_FEE", "CHARGEBACK_FEE"})
BalanceKind = Literal[
    "payment", "refund", "refund_failed", "dispute", "dispute_won", "fee", "payout", "payout_failed", "other"
]
BALANCE_KINDS: Final[tuple[tuple[str, BalanceKind], ...]] = (
    ("T00", "payment"),
    ("T01", "fee"),
    ("T04", "payout"),
    ("T1101", "payout_failed"),
    ("T1106", "dispute"),
    ("T1107", "refund"),
    ("T1110", "dispute"),
    ("T1111", "dispute_won"),
    ("T1201", "dispute"),
    ("T1202", "dispute_won"),
)
"""The kind of a movement by the beginning of its transaction event code."""


def order_report(order: Json) -> PaymentReport:
    """Return how an order stands, or its capture if it has one."""
    unit = _first(order, "purchase_units")
    links = {link.get("rel"): link.get("href") for link in objects(order, "links")}
    report = PaymentReport(
        state="open",
        payment_id=our_id(unit.get("custom_id")),
        page=str(order["id"]),
        url=links.get("payer-action") or links.get("approve"),
    )
    if capture := first_capture(order):
        taken = capture_report(capture)
        return replace(taken, payment_id=taken.payment_id or report.payment_id, page=report.page, url=report.url)
    return replace(report, state=ORDER_STATES[str(order["status"])])


def capture_report(capture: Json) -> PaymentReport:
    state = CAPTURE_STATES[str(capture["status"])]
    fee = inner(capture, "seller_receivable_breakdown", "paypal_fee")
    order_id = inner(capture, "supplementary_data", "related_ids").get("order_id")
    details = inner(capture, "status_details").get("reason")
    return PaymentReport(
        state=state,
        payment_id=our_id(capture.get("custom_id")),
        page=None if order_id is None else str(order_id),
        charge=str(capture["id"]),
        received=money(inner(capture, "amount")) if state == "paid" else None,
        fee=money(fee) if fee else None,
        failure=str(details or capture["status"]).lower() if state == "declined" else None,
    )


def refund_report(refund: Json) -> RefundReport:
    charge = capture_of(refund) or inner(refund, "supplementary_data", "related_ids").get("capture_id")
    if not charge:
        raise ValueError(f"refund {refund.get('id')} names no capture")
    state = REFUND_STATES[str(refund["status"])]
    key = refund.get("custom_id")
    return RefundReport(
        reference=str(refund["id"]),
        charge=str(charge),
        state=state,
        amount=money(inner(refund, "amount")),
        key=None if key is None else str(key),
        failure=str(inner(refund, "status_details").get("reason") or refund["status"]).lower()
        if state == "failed"
        else None,
    )


def reversal_report(reversal: Json) -> DisputeReport:
    """Return the loss that PayPal reports as a refund which nobody asked for."""
    refund = refund_report(reversal)
    return DisputeReport(
        reference=refund.reference,
        charge=refund.charge,
        state="lost",
        amount=refund.amount,
        withheld=refund.amount,
        reason="reversed",
        is_reversal=True,
    )


def dispute_report(dispute: Json) -> DisputeReport:
    """Return how a dispute stands. `money_movements`, if PayPal sends them, say what it took."""
    transaction = _first(dispute, "disputed_transactions")
    charge = transaction.get("seller_transaction_id")
    if not charge:
        raise ValueError(f"dispute {dispute.get('dispute_id')} names no transaction")
    amount, state = money(inner(dispute, "dispute_amount")), dispute_state(dispute)
    movements = [each for each in objects(dispute, "money_movements") if each.get("affected_party") == "SELLER"]
    fees = [each for each in movements if each.get("reason") in _FEES]
    taken = [each for each in movements if each.get("reason") not in _FEES]
    return DisputeReport(
        reference=str(dispute["dispute_id"]),
        charge=str(charge),
        state=state,
        amount=amount,
        withheld=_sum(taken, amount.currency) if "money_movements" in dispute else _known_none(state, amount),
        fee=_sum(fees, amount.currency) if fees else None,
        reason=str(dispute.get("reason") or ""),
        payment_id=our_id(transaction.get("custom")),
    )


def dispute_state(dispute: Json) -> DisputeState:
    if dispute.get("status") == "RESOLVED":
        return OUTCOMES[str(inner(dispute, "dispute_outcome").get("outcome_code") or "NONE")]
    return "inquiry" if dispute.get("dispute_life_cycle_stage") == "INQUIRY" else "open"


def balance_line(details: Json) -> BalanceLine:
    info = inner(details, "transaction_info")
    code = str(info["transaction_event_code"])
    kinds: list[BalanceKind] = [kind for prefix, kind in BALANCE_KINDS if code.startswith(prefix)]
    kind = kinds[0] if kinds else "other"
    amount, about = money(inner(info, "transaction_amount")), info.get("paypal_reference_id")
    fee = money(inner(info, "fee_amount")) if inner(info, "fee_amount") else Money(0, amount.currency)
    transaction = str(info["transaction_id"])
    return BalanceLine(
        # PayPal may move money twice under one id, such as a hold and its release.
        reference=f"{transaction}:{code}",
        kind=kind,
        amount=amount,
        # PayPal writes what it takes as a negative amount.
        fee=Money(-fee.amount, fee.currency),
        source=transaction,
        charge=transaction if kind == "payment" else None if about is None else str(about),
        at=moment(str(info["transaction_initiation_date"])),
    )


# -- events
# ----------------------------------------------------------------------------------------------------------------

_READERS: Final[dict[str, Callable[[Json], Fact]]] = {
    "CHECKOUT.ORDER.APPROVED": order_report,
    "CHECKOUT.ORDER.VOIDED": order_report,
    "PAYMENT.CAPTURE.COMPLETED": capture_report,
    "PAYMENT.CAPTURE.PENDING": capture_report,
    "PAYMENT.CAPTURE.DENIED": capture_report,
    "PAYMENT.CAPTURE.DECLINED": capture_report,
    "PAYMENT.CAPTURE.REFUNDED": refund_report,
    "PAYMENT.CAPTURE.REVERSED": reversal_report,
    "PAYMENT.REFUND.PENDING": refund_report,
    "PAYMENT.REFUND.FAILED": refund_report,
    "CUSTOMER.DISPUTE.CREATED": dispute_report,
    "CUSTOMER.DISPUTE.UPDATED": dispute_report,
    "CUSTOMER.DISPUTE.RESOLVED": dispute_report,
}
EVENT_TYPES = tuple(_READERS)


def read_event(type: str, event: Json) -> EventReading:
    """Return what an event says. Raises ValueError for an object that carries our id and cannot be read."""
    read, resource = _READERS.get(type), inner(event, "resource")
    if read is None:
        return EventReading()
    try:
        fact = read(resource)
        at = event.get("create_time")
        return EventReading((replace(fact, at=None if at is None else moment(str(at))),))
    except (KeyError, TypeError, ValueError) as error:
        ids = [resource.get("custom_id"), *(each.get("custom_id") for each in objects(resource, "purchase_units"))]
        if all(our_id(each) is None for each in ids):
            return EventReading()
        raise ValueError(f"{type}: resource {resource.get('id')} cannot be read: {error!r}") from error


# -- values
# ----------------------------------------------------------------------------------------------------------------


def money(amount: Json) -> Money:
    """Return an amount as PayPal writes it: `{"currency_code": "EUR", "value": "42.00"}`."""
    code = str(amount["currency_code"]).upper()
    return Money(to_minor(str(amount["value"]), code), code)


def our_id(text: Any) -> UUID | None:
    try:
        return UUID(str(text))
    except ValueError:
        return None


def moment(text: str) -> datetime:
    parsed = datetime.fromisoformat(text)
    if parsed.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return parsed


def _first(owner: Json, name: str) -> dict[str, Any]:
    listed = objects(owner, name)
    return listed[0] if listed else {}


def _sum(movements: list[dict[str, Any]], currency: str) -> Money | None:
    """Return what PayPal took in all, or None if a movement has another currency than the dispute."""
    total = 0
    for each in movements:
        moved = money(inner(each, "amount"))
        if moved.currency != currency:
            return None
        total += -moved.amount if each.get("type") == "CREDIT" else moved.amount
    return Money(max(0, total), currency)


def _known_none(state: DisputeState, amount: Money) -> Money | None:
    return Money(0, amount.currency) if state in ("inquiry", "won") else None
