"""Stripe: `Stripe-Signature: t=..,v1=..`, HMAC-SHA256 of `t.body` with the whole `whsec_` string as key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.payload import (
    as_object,
    as_text,
)
from onceward.webhooks.provider import Provider, Request
from onceward.webhooks.samples import apply_fields, token, unix_now


def _subject(request: Request, event: Any) -> str:
    """Return the id that all events of one payment, or of one other object, share."""
    about = as_object(data.get("object")) if (data := as_object(event.get("data"))) else data
    for name in ("payment_intent", "subscription", "id"):
        if (value := about.get(name)) and isinstance(value, str):
            return value
    return as_text(as_object(event.get("related_object")).get("id"))


class StripeWebhooks(Provider):
    """Stripe retries for three days, without order and with duplicates. The event id is the body's `id`."""

    name = "stripe"
    title = "Stripe"
    sample_types = (
        "charge.succeeded",
        "charge.failed",
        "charge.refunded",
        "checkout.session.completed",
        "checkout.session.expired",
        "payment_intent.succeeded",
        "payment_intent.payment_failed",
        "refund.created",
        "invoice.payment_succeeded",
        "invoice.payment_failed",
        "customer.subscription.created",
        "customer.subscription.updated",
        "customer.subscription.deleted",
    )

    verification = Hmac(
        header="stripe-signature", signed="{timestamp}.{body}", separator=",", prefix="v1=", timestamp_entry="t="
    )
    # Thin events (`v2.core.event`) contain a reference instead of `data.object`.
    events = Events(ordering=_subject, data="data.object", strict=True)

    def sample(self, type: str, fields: Mapping[str, Any] | None = None) -> Any:
        payload = {
            "id": token("evt_"),
            "object": "event",
            "api_version": "2025-03-31.basil",
            "created": unix_now(),
            "livemode": False,
            "pending_webhooks": 1,
            "request": {"id": token("req_", 14), "idempotency_key": None},
            "type": type,
            "data": {"object": _sample_object(type)},
        }
        return apply_fields(payload, fields)


def _charge(type: str) -> dict[str, Any]:
    refunded, failed = type == "charge.refunded", type == "charge.failed"
    return {
        "id": token("ch_"),
        "object": "charge",
        "amount": 4200,
        "amount_captured": 0 if failed else 4200,
        "amount_refunded": 4200 if refunded else 0,
        "balance_transaction": None if failed else token("txn_"),
        "billing_details": {"email": "buyer@example.com", "name": "Ada Example", "phone": None},
        "captured": not failed,
        "created": unix_now(),
        "currency": "eur",
        "customer": None,
        "failure_code": "card_declined" if failed else None,
        "failure_message": "The card was declined." if failed else None,
        "metadata": {},
        "paid": not failed,
        "payment_intent": token("pi_"),
        "payment_method_details": {"card": {"brand": "visa", "last4": "4242"}, "type": "card"},
        "receipt_email": None,
        "refunded": refunded,
        "status": "failed" if failed else "succeeded",
    }


def _session(type: str) -> dict[str, Any]:
    done = type == "checkout.session.completed"
    return {
        "id": token("cs_test_", 58),
        "object": "checkout.session",
        "amount_subtotal": 4200,
        "amount_total": 4200,
        "client_reference_id": None,
        "created": unix_now(),
        "currency": "eur",
        "customer": None,
        "customer_details": {"email": "buyer@example.com", "name": "Ada Example"} if done else None,
        "metadata": {},
        "mode": "payment",
        "payment_intent": token("pi_") if done else None,
        "payment_status": "paid" if done else "unpaid",
        "status": "complete" if done else "expired",
        "subscription": None,
    }


def _intent(type: str) -> dict[str, Any]:
    paid = type == "payment_intent.succeeded"
    return {
        "id": token("pi_"),
        "object": "payment_intent",
        "amount": 4200,
        "amount_received": 4200 if paid else 0,
        "created": unix_now(),
        "currency": "eur",
        "customer": None,
        "last_payment_error": None if paid else {"code": "card_declined", "type": "card_error"},
        "latest_charge": token("ch_"),
        "metadata": {},
        "status": "succeeded" if paid else "requires_payment_method",
    }


def _refund(type: str) -> dict[str, Any]:
    return {
        "id": token("re_"),
        "object": "refund",
        "amount": 4200,
        "charge": token("ch_"),
        "created": unix_now(),
        "currency": "eur",
        "metadata": {},
        "payment_intent": token("pi_"),
        "reason": "requested_by_customer",
        "status": "succeeded",
    }


def _invoice(type: str) -> dict[str, Any]:
    paid = type != "invoice.payment_failed"
    return {
        "id": token("in_"),
        "object": "invoice",
        "amount_due": 4200,
        "amount_paid": 4200 if paid else 0,
        "attempt_count": 1,
        "billing_reason": "subscription_cycle",
        "created": unix_now(),
        "currency": "eur",
        "customer": token("cus_", 14),
        "customer_email": "buyer@example.com",
        "metadata": {},
        "period_end": unix_now(),
        "period_start": unix_now() - 30 * 86_400,
        "status": "paid" if paid else "open",
        "subscription": token("sub_"),
    }


def _subscription(type: str) -> dict[str, Any]:
    ended = type == "customer.subscription.deleted"
    return {
        "id": token("sub_"),
        "object": "subscription",
        "cancel_at_period_end": False,
        "canceled_at": unix_now() if ended else None,
        "created": unix_now() - 30 * 86_400,
        "currency": "eur",
        "current_period_end": unix_now() + 30 * 86_400,
        "current_period_start": unix_now(),
        "customer": token("cus_", 14),
        "ended_at": unix_now() if ended else None,
        "items": {
            "object": "list",
            "data": [{"id": token("si_", 14), "price": {"id": token("price_"), "unit_amount": 4200}, "quantity": 1}],
        },
        "metadata": {},
        "status": "canceled" if ended else "active",
    }


_OBJECTS: Final[tuple[tuple[str, Callable[[str], dict[str, Any]]], ...]] = (
    ("charge.", _charge),
    ("checkout.session.", _session),
    ("payment_intent.", _intent),
    ("refund.", _refund),
    ("invoice.", _invoice),
    ("customer.subscription.", _subscription),
)


def _sample_object(type: str) -> dict[str, Any]:
    for prefix, make in _OBJECTS:
        if type.startswith(prefix):
            return make(type)
    kind = type.rpartition(".")[0] or "object"
    return {"id": token("obj_"), "object": kind, "created": unix_now(), "metadata": {}}
