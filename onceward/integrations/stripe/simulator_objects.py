"""The objects of the Stripe simulator: JSON with Stripe's field names, and the rules between them."""

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from onceward.errors import OncewardError
from onceward.integrations.stripe.amounts import AMOUNTS, multiple
from onceward.testing.simulators.server import part

Json = dict[str, Any]
SESSION_LIFETIME_S = 24 * 3600
SESSION_SHORTEST_S = 30 * 60
REFUND_MOVES = {
    "requires_action": {"pending", "succeeded", "failed", "canceled"},
    "pending": {"succeeded", "failed", "canceled"},
    "succeeded": {"failed"},
    "failed": set[str](),
    "canceled": set[str](),
}
"""The allowed status changes of a refund."""


class StripeError(OncewardError):
    """An error response in Stripe's format."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        type: str = "invalid_request_error",
        code: str | None = None,
        param: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.is_validation = param is not None or status in (401, 404)
        """The request was refused before it ran, so that its idempotency key is not used up."""
        error = {"type": type, "code": code, "message": message, "param": param}
        self.body = {"error": {name: value for name, value in error.items() if value is not None}}


def make_id(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(12)}"


def now() -> int:
    return int(time.time())


@dataclass(slots=True)
class Books:
    """All objects of the simulated account, by id."""

    sessions: dict[str, Json] = field(default_factory=dict[str, Json])
    intents: dict[str, Json] = field(default_factory=dict[str, Json])
    charges: dict[str, Json] = field(default_factory=dict[str, Json])
    refunds: dict[str, Json] = field(default_factory=dict[str, Json])
    disputes: dict[str, Json] = field(default_factory=dict[str, Json])
    # The initial status of the next refunds; `succeeded` if empty.
    next_refund_statuses: list[str] = field(default_factory=list[str])
    events: dict[str, Json] = field(default_factory=dict[str, Json])
    # Separate, because a session's JSON contains neither.
    session_items: dict[str, list[Json]] = field(default_factory=dict[str, list[Json]])
    payment_data: dict[str, Json] = field(default_factory=dict[str, Json])
    # The account of each object that does not belong to the platform's own account.
    owners: dict[str, str] = field(default_factory=dict[str, str])
    # For which account the current request or change acts. None: the platform's own.
    account: str | None = None

    def keep(self, objects: dict[str, Json], item: Json) -> None:
        """Store an object of the current account."""
        objects[item["id"]] = item
        if self.account is not None:
            self.owners[item["id"]] = self.account

    def new_session(self, fields: Mapping[str, Any], *, pages_url: str) -> Json:
        numbered = part(fields, "line_items")
        items = [_item(numbered[index]) for index in sorted(numbered, key=int)]
        currencies = {item["currency"] for item in items}
        if len(currencies) != 1:
            raise StripeError("line_items must not be empty and must have one currency.", param="line_items")
        mode = required(fields, "mode")
        if mode == "subscription" and not all(item["recurring"] for item in items):
            raise StripeError(
                "You must provide at least one recurring price in `subscription` mode.", param="line_items"
            )
        if mode == "payment" and any(item["recurring"] for item in items):
            raise StripeError("You specified `payment` mode but passed a recurring price.", param="line_items")
        session_id = make_id("cs_test")
        session: Json = {
            "id": session_id,
            "object": "checkout.session",
            "amount_total": sum(item["amount_total"] for item in items),
            "cancel_url": fields.get("cancel_url"),
            "client_reference_id": fields.get("client_reference_id"),
            "created": now(),
            "currency": currencies.pop(),
            "customer": None,
            "customer_email": fields.get("customer_email"),
            "expires_at": _expiry(fields),
            "livemode": False,
            "metadata": part(fields, "metadata"),
            "mode": mode,
            "payment_intent": None,
            "payment_status": "unpaid",
            "status": "open",
            "subscription": None,
            "success_url": required(fields, "success_url"),
            "url": f"{pages_url}/pay/{session_id}",
        }
        self.keep(self.sessions, session)
        self.session_items[session_id] = items
        self.payment_data[session_id] = part(
            fields, "subscription_data" if mode == "subscription" else "payment_intent_data"
        )
        return session

    def intent_of(self, session: Json) -> Json:
        """Return the payment intent of a session. The first attempt to pay creates it."""
        if session["payment_intent"] is None:
            intent = self.new_intent(
                {
                    "amount": str(session["amount_total"]),
                    "currency": session["currency"],
                    "metadata": part(self.payment_data[session["id"]], "metadata"),
                    "receipt_email": session["customer_email"],
                    "capture_method": self.payment_data[session["id"]].get("capture_method"),
                }
            )
            session["payment_intent"] = intent["id"]
        return self.intents[session["payment_intent"]]

    def new_intent(self, fields: Mapping[str, Any]) -> Json:
        intent_id = make_id("pi")
        intent: Json = {
            "id": intent_id,
            "object": "payment_intent",
            "amount": amount(fields, "amount", required(fields, "currency")),
            "amount_capturable": 0,
            "amount_received": 0,
            "capture_method": fields.get("capture_method") or "automatic",
            "currency": required(fields, "currency").lower(),
            "client_secret": f"{intent_id}_secret_{secrets.token_hex(8)}",
            "created": now(),
            "description": fields.get("description"),
            "latest_charge": None,
            "livemode": False,
            "metadata": part(fields, "metadata"),
            "receipt_email": fields.get("receipt_email"),
            "status": "requires_payment_method",
        }
        self.keep(self.intents, intent)
        return intent

    def charge(self, intent: Json, *, declined: bool = False) -> Json:
        """Attempt a payment. Return a charge that succeeded, failed, or waits for its capture."""
        charge_id = make_id("ch")
        captured = not declined and intent["capture_method"] != "manual"
        charge: Json = {
            "id": charge_id,
            "object": "charge",
            "amount": intent["amount"],
            "amount_captured": intent["amount"] if captured else 0,
            "amount_refunded": 0,
            "balance_transaction": None,
            "captured": captured,
            "created": now(),
            "currency": intent["currency"],
            "description": intent["description"],
            "disputed": False,
            "failure_code": "card_declined" if declined else None,
            "failure_message": "Your card was declined." if declined else None,
            "livemode": False,
            "metadata": dict(intent["metadata"]),
            "paid": not declined,
            "payment_intent": intent["id"],
            "receipt_email": intent["receipt_email"],
            "refunded": False,
            "status": "failed" if declined else "succeeded",
        }
        self.keep(self.charges, charge)
        intent["latest_charge"] = charge_id
        if captured:
            intent.update(status="succeeded", amount_received=intent["amount"])
        elif not declined:
            intent.update(status="requires_capture", amount_capturable=intent["amount"])
        else:
            error = {"type": "card_error", "code": "card_declined", "decline_code": "generic_decline"}
            intent.update(status="requires_payment_method", last_payment_error=error)
        return charge

    def capture(self, intent: Json, fields: Mapping[str, Any]) -> Json:
        """Take reserved money, in full or in part. Return the charge."""
        if intent["status"] != "requires_capture":
            raise StripeError(
                f"This PaymentIntent could not be captured because it has a status of {intent['status']}.",
                code="payment_intent_unexpected_state",
            )
        taken = (
            amount(fields, "amount_to_capture", intent["currency"])
            if fields.get("amount_to_capture")
            else intent["amount"]
        )
        if taken > intent["amount_capturable"]:
            raise StripeError("The amount to capture is greater than the amount reserved.", param="amount_to_capture")
        charge = self.charges[intent["latest_charge"]]
        charge.update(captured=True, amount_captured=taken)
        intent.update(status="succeeded", amount_capturable=0, amount_received=taken)
        return charge

    def refund(self, fields: Mapping[str, Any]) -> tuple[Json, Json]:
        """Refund a charge in full or in part, at most its unrefunded amount. Return the refund and the charge."""
        charge = self._refundable(fields)
        disputes = [each for each in self.disputes.values() if each["charge"] == charge["id"]]
        if charge["disputed"] and not any(each["is_charge_refundable"] for each in disputes):
            raise StripeError(f"Charge {charge['id']} has been charged back.", code="charge_disputed")
        left = charge["amount_captured"] - charge["amount_refunded"]
        if left <= 0:
            raise StripeError(f"Charge {charge['id']} has already been refunded.", code="charge_already_refunded")
        refunded = amount(fields, "amount", charge["currency"]) if fields.get("amount") else left
        if refunded > left:
            raise StripeError(
                f"Refund amount ({refunded}) is greater than unrefunded amount on charge ({left})",
                param="amount",
            )
        status = self.next_refund_statuses.pop(0) if self.next_refund_statuses else "succeeded"
        refund: Json = {
            "id": make_id("re"),
            "object": "refund",
            "amount": refunded,
            "charge": charge["id"],
            "created": now(),
            "currency": charge["currency"],
            "metadata": part(fields, "metadata"),
            "balance_transaction": None,
            "payment_intent": charge["payment_intent"],
            "reason": fields.get("reason"),
            "failure_balance_transaction": None,
            "failure_reason": None,
            "status": "pending" if status in ("failed", "canceled") else status,
        }
        if refund["status"] == "requires_action":
            # The customer enters a bank account on Stripe's page, because the payment method takes no refund.
            refund["next_action"] = {"type": "display_details", "display_details": {"expires_at": now() + 45 * 86400}}
        self.keep(self.refunds, refund)
        charge["amount_refunded"] += refunded
        charge["refunded"] = charge["amount_refunded"] == charge["amount_captured"]
        if status != refund["status"]:
            self.move_refund(refund, status)
        return refund, charge

    def move_refund(self, refund: Json, status: str, *, failure_reason: str = "unknown") -> None:
        """Change the status of a refund. The amount of a failed or canceled refund can be refunded again.

        A refund to a card may fail after it succeeded: the bank returns the money days later.
        """
        allowed = REFUND_MOVES[refund["status"]]
        if status not in allowed:
            raise StripeError(
                f"A refund with status {refund['status']} can change to {sorted(allowed)}, not to {status}."
            )
        refund["status"] = status
        if status in ("failed", "canceled"):
            refund["failure_reason"] = failure_reason if status == "failed" else None
            charge = self.charges[refund["charge"]]
            charge["amount_refunded"] -= refund["amount"]
            charge["refunded"] = False

    def _refundable(self, fields: Mapping[str, Any]) -> Json:
        if fields.get("charge"):
            return get_object(self.charges, str(fields["charge"]), "charge")
        intent = get_object(self.intents, required(fields, "payment_intent"), "payment_intent")
        charge = self.charges.get(intent["latest_charge"] or "")
        if charge is None or not charge["paid"]:
            raise StripeError(
                f"This PaymentIntent ({intent['id']}) does not have a successful charge to refund.",
                code="payment_intent_unexpected_state",
            )
        return charge


def get_object(objects: Mapping[str, Json], object_id: str, kind: str) -> Json:
    """Return the object with this id, or raise the 404 error of Stripe."""
    existing = objects.get(object_id)
    if existing is None:
        raise StripeError(f"No such {kind}: '{object_id}'", status=404, code="resource_missing", param="id")
    return existing


def required(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise StripeError(f"Missing required param: {name}.", code="parameter_missing", param=name)
    return value


def positive_integer(fields: Mapping[str, Any], name: str) -> int:
    text = required(fields, name)
    if not text.isdecimal() or int(text) <= 0:
        raise StripeError(f"Invalid {name}: must be a positive integer", code="parameter_invalid_integer", param=name)
    return int(text)


def amount(fields: Mapping[str, Any], name: str, currency: str, *, zero: bool = False) -> int:
    """Return the amount if Stripe accepts it in this currency. A price, but no payment, may be zero."""
    if not AMOUNTS.takes(currency):
        raise StripeError(f"Invalid currency: {currency}", param="currency")
    if zero and fields.get(name) == "0":
        return 0
    minor_units = positive_integer(fields, name)
    if minor_units % multiple(currency):
        raise StripeError(f"Invalid {name}: in {currency} it must be a multiple of {multiple(currency)}", param=name)
    return minor_units


def _expiry(fields: Mapping[str, Any]) -> int:
    """Return when a session expires: `expires_at`, 30 minutes to 24 hours from now, or 24 hours from now."""
    latest = now() + SESSION_LIFETIME_S
    expires_at = int(fields.get("expires_at") or latest)
    if expires_at < now() + SESSION_SHORTEST_S:
        raise StripeError(
            "The `expires_at` timestamp must be at least 30 minutes from Checkout Session creation.", param="expires_at"
        )
    if expires_at > latest:
        raise StripeError(
            "The `expires_at` timestamp must be less than 24 hours from Checkout Session creation.", param="expires_at"
        )
    return expires_at


def _item(item: Mapping[str, Any]) -> Json:
    price = part(item, "price_data")
    quantity = positive_integer(item, "quantity") if item.get("quantity") else 1
    return {
        "name": part(price, "product_data").get("name") or "Item",
        "quantity": quantity,
        "currency": required(price, "currency").lower(),
        "amount_total": amount(price, "unit_amount", required(price, "currency"), zero=True) * quantity,
        "recurring": read_recurring(price),
    }


def read_recurring(price: Mapping[str, Any]) -> Json | None:
    """Return how often a price is charged, or None for a single payment."""
    recurring = part(price, "recurring")
    if not recurring:
        return None
    interval = required(recurring, "interval")
    if interval not in ("day", "week", "month", "year"):
        raise StripeError(f"Invalid interval: {interval}", param="interval")
    count = positive_integer(recurring, "interval_count") if recurring.get("interval_count") else 1
    return {"interval": interval, "interval_count": count}


def nest(fields: list[tuple[str, str]]) -> Json:
    """Return form fields in brackets as nested objects: `a[b]=1` is {"a": {"b": "1"}}. A list index is a key, too."""
    nested: Json = {}
    for name, value in fields:
        parts = name.replace("]", "").split("[")
        place = nested
        for step in parts[:-1]:
            inside: Any = place.setdefault(step, {})
            if not isinstance(inside, dict):
                raise StripeError(f"Invalid form field: {name}", param=name)
            place = cast("Json", inside)
        place[parts[-1]] = value
    return nested
