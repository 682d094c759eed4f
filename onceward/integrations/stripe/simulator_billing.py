"""Subscriptions and invoices of the Stripe simulator, in the shape of API version 2025-06-30.basil.

In this version an invoice names its subscription in `parent.subscription_details`, and a period belongs to an item.
"""

from __future__ import annotations

import calendar
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from onceward.integrations.stripe.simulator_objects import Books, Json, StripeError, make_id, now

ENDED = frozenset({"canceled", "incomplete_expired"})


@dataclass(slots=True)
class Billing:
    """Customers, subscriptions and invoices by id."""

    customers: dict[str, Json] = field(default_factory=dict[str, Json])
    subscriptions: dict[str, Json] = field(default_factory=dict[str, Json])
    invoices: dict[str, Json] = field(default_factory=dict[str, Json])

    def subscribe(self, books: Books, session: Json, items: list[Json], metadata: Mapping[str, Any]) -> Json:
        """Create the customer and the subscription of a paid session."""
        customer: Json = {"id": make_id("cus"), "object": "customer", "email": session["customer_email"]}
        books.keep(self.customers, customer)
        subscription: Json = {
            "id": make_id("sub"),
            "object": "subscription",
            "cancel_at_period_end": False,
            "canceled_at": None,
            "created": now(),
            "currency": session["currency"],
            "customer": customer["id"],
            "ended_at": None,
            "latest_invoice": None,
            "livemode": False,
            "metadata": dict(metadata),
            "status": "incomplete",
        }
        subscription["items"] = {"object": "list", "data": [_item(subscription["id"], item) for item in items]}
        books.keep(self.subscriptions, subscription)
        session.update(customer=customer["id"], subscription=subscription["id"])
        return subscription

    def bill(self, books: Books, subscription: Json, *, reason: str) -> Json:
        """Create the invoice for the current period of a subscription."""
        if subscription["status"] in ENDED:
            raise StripeError(f"Subscription {subscription['id']} has ended: it has no further invoices.")
        items: list[Json] = subscription["items"]["data"]
        total = sum(item["price"]["unit_amount"] * item["quantity"] for item in items)
        details = {"subscription": subscription["id"], "metadata": dict(subscription["metadata"])}
        invoice: Json = {
            "id": make_id("in"),
            "object": "invoice",
            "amount_due": total,
            "amount_paid": 0,
            "amount_remaining": total,
            "attempt_count": 0,
            "billing_reason": reason,
            "created": now(),
            "currency": subscription["currency"],
            "customer": subscription["customer"],
            "customer_email": self.customers[subscription["customer"]]["email"],
            "lines": {"object": "list", "data": [_line(item) for item in items], "has_more": False},
            "livemode": False,
            "metadata": {},
            "number": f"SIM-{len(self.invoices) + 1:04d}",
            "parent": {"type": "subscription_details", "subscription_details": details, "quote_details": None},
            "payments": {"object": "list", "data": [], "has_more": False},
            "status": "open",
            "total": total,
        }
        books.keep(self.invoices, invoice)
        subscription["latest_invoice"] = invoice["id"]
        return invoice

    def settle(self, invoice: Json, intent: Json, *, paid: bool) -> None:
        """Record an attempt to pay an invoice, and what it means for the subscription."""
        subscription = self.subscription_of(invoice)
        invoice["attempt_count"] += 1
        payment = {"type": "payment_intent", "payment_intent": intent["id"]}
        invoice["payments"]["data"] = [
            {"object": "invoice_payment", "payment": payment, "status": "paid" if paid else "open"}
        ]
        if paid:
            invoice.update(status="paid", amount_paid=invoice["total"], amount_remaining=0)
        if subscription["status"] not in ENDED:
            subscription["status"] = "active" if paid else "past_due"

    def give_up(self, subscription: Json, status: str) -> None:
        """Stop the retries of an unpaid invoice, with the consequence that the account has chosen in its settings."""
        if status not in ("past_due", "unpaid", "canceled"):
            raise StripeError(f"After failed payments a subscription is past_due, unpaid or canceled, not {status}.")
        if status == "canceled":
            self.end(subscription)
        else:
            subscription["status"] = status

    def advance(self, subscription: Json) -> None:
        """Move the subscription to its next period."""
        for item in subscription["items"]["data"]:
            start = item["current_period_end"]
            item.update(current_period_start=start, current_period_end=_after(start, item["price"]["recurring"]))

    def subscription_of(self, invoice: Json) -> Json:
        return self.subscriptions[invoice["parent"]["subscription_details"]["subscription"]]

    def end(self, subscription: Json) -> None:
        subscription.update(status="canceled", canceled_at=now(), ended_at=now())


def _item(subscription_id: str, item: Json) -> Json:
    start = now()
    price = {
        "id": make_id("price"),
        "object": "price",
        "currency": item["currency"],
        "unit_amount": item["amount_total"] // item["quantity"],
        "recurring": item["recurring"],
    }
    return {
        "id": make_id("si"),
        "object": "subscription_item",
        "subscription": subscription_id,
        "quantity": item["quantity"],
        "price": price,
        "current_period_start": start,
        "current_period_end": _after(start, item["recurring"]),
    }


def _line(item: Json) -> Json:
    return {
        "id": make_id("il"),
        "object": "line_item",
        "amount": item["price"]["unit_amount"] * item["quantity"],
        "currency": item["price"]["currency"],
        "quantity": item["quantity"],
        "period": {"start": item["current_period_start"], "end": item["current_period_end"]},
    }


def _after(start: int, recurring: Mapping[str, Any]) -> int:
    """Return the end of a period. A month keeps the day of the month where it exists."""
    count = recurring["interval_count"]
    days = {"day": 1, "week": 7}.get(recurring["interval"])
    if days is not None:
        return start + days * count * 86400
    began = datetime.fromtimestamp(start, UTC)
    months = began.month - 1 + count * (12 if recurring["interval"] == "year" else 1)
    year, month = began.year + months // 12, months % 12 + 1
    day = min(began.day, calendar.monthrange(year, month)[1])
    return int(began.replace(year=year, month=month, day=day).timestamp())
