"""Payment pages at the payment services: open, look up, close. External calls: no open transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import structlog

from onceward import Engine
from onceward.integrations.stripe import to_stripe
from onceward.services import Accepted, NotSet, Refused, ServiceAnswer, Throttled, Unknown, Unreachable
from onceward_apps.ticketing.app import app
from onceward_apps.ticketing.currencies import SERVICES, is_taken_by
from onceward_apps.ticketing.errors import CurrencyNotTaken, NotPayable
from onceward_apps.ticketing.model import Provider

log = structlog.get_logger(__name__)

NAMES: dict[str, str] = {"stripe": "Stripe", "paypal": "PayPal"}
PageState = Literal["open", "paid", "closed"]


class Unanswered(Exception):
    """The payment service gave no answer; `outcome` says why."""

    def __init__(self, outcome: ServiceAnswer) -> None:
        super().__init__(type(outcome).__name__)
        self.outcome = outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """One opening of a payment page. A retry sends the same key and expiry, and gets the same page."""

    order: Any
    items: Sequence[Any]
    provider: Provider
    number: int
    expires_at: datetime
    return_url: str

    @property
    def key(self) -> str:
        return f"checkout:{self.order['id']}:pay:{self.provider}:{self.number}"


async def open_page(opening: Opening) -> ServiceAnswer:
    """Open a payment page at the service. A repeated opening returns the same page."""
    order, url = opening.order, opening.return_url
    if opening.provider == "paypal":
        paypal = await app.services.paypal(order["organization_id"])
        return await paypal.create_order(
            key=opening.key,
            amount_minor=order["total_cents"],
            currency=order["currency"],
            custom_id=str(order["id"]),
            return_url=f"{url}&paid=paypal",
            cancel_url=f"{url}&cancelled=1",
            description=f"{order['event_name']}, {len(opening.items)} tickets",
        )
    name = f"{order['event_name']}: {', '.join(item['place'] for item in opening.items)}"
    amount = to_stripe(order["total_cents"], order["currency"])
    price = {"currency": order["currency"].lower(), "unit_amount": amount, "product_data": {"name": name[:250]}}
    stripe = await app.services.stripe(order["organization_id"])
    return await stripe.create_checkout_session(
        key=opening.key,
        line_items=[{"quantity": 1, "price_data": price}],
        success_url=f"{url}&paid=stripe",
        cancel_url=f"{url}&cancelled=1",
        client_reference_id=str(order["id"]),
        customer_email=order["email"],
        metadata={
            "checkout_id": str(order["id"]),
            "organization_id": str(order["organization_id"]),
            "event_id": str(order["event_id"]),
        },
        expires_at=int(opening.expires_at.timestamp()),
    )


async def page_state(organization: UUID, provider: str, session: str) -> PageState:
    """Ask the service for the state of a page. Raises `Unanswered` if the service gives no answer."""
    outcome = await _retrieve(organization, provider, session)
    if isinstance(outcome, Refused) and (
        outcome.detail.get("code") == "resource_missing" or outcome.detail.get("status") == 404
    ):
        return "closed"  # the service does not know the page, for example because the configured account changed
    if not isinstance(outcome, Accepted):
        raise Unanswered(outcome)
    match str(outcome.detail.get("status")):
        case "complete" | "COMPLETED" | "APPROVED":
            return "paid"
        case "expired" | "VOIDED":
            return "closed"
        case _:
            return "open"


async def close_page(organization: UUID, provider: str, session: str) -> PageState:
    """Close an open page and return its state: a buyer may have paid at the last moment.

    A PayPal order cannot be closed. It is never captured once the checkout has another page.
    """
    if provider != "stripe":
        return "closed"
    stripe = await app.services.stripe(organization)
    outcome = await stripe.expire_checkout_session(session, key=f"close:{session}")
    return "closed" if isinstance(outcome, Accepted) else await page_state(organization, provider, session)


async def _retrieve(organization: UUID, provider: str, session: str) -> ServiceAnswer:
    if provider == "paypal":
        return await (await app.services.paypal(organization)).get_order(session)
    return await (await app.services.stripe(organization)).retrieve_checkout_session(session)


def check_currency(provider: str, currency: str) -> None:
    """Raise before the call if the service does not accept the currency."""
    if not is_taken_by(provider, currency):
        raise CurrencyNotTaken(f"{NAMES[provider]} does not accept {currency}.{_other_way(provider, currency)}")


async def refuse(engine: Engine, order: Any, provider: str, outcome: ServiceAnswer | NotSet) -> NotPayable:
    """Log why a page could not be opened, notify the staff of what to fix, and return an error that helps the buyer.

    Logs and notices omit the service's own message, because it may contain the buyer's address.
    """
    reason, is_lasting = _reason(outcome)
    log.warning(
        "payment.page_refused",
        provider=provider,
        reason=reason,
        checkout_id=str(order["id"]),
        organization_id=str(order["organization_id"]),
    )
    if is_lasting:
        async with engine.transaction(organization=order["organization_id"]) as tx:
            await tx.notify_admins(
                "PAYMENT_SERVICE_REFUSED",
                "error",
                f"{NAMES[provider]} refuses to open payment pages: {reason}",
                {"provider": provider, "reason": reason, "checkout": str(order["id"])},
            )
    name, until = NAMES[provider], f"{order['expires_at']:%H:%M} UTC"
    other = _other_way(provider, order["currency"])
    if not is_lasting:
        return NotPayable(
            f"{name} is not available at the moment. Your seats are held until {until}: try again.{other}"
        )
    contact = f" Questions: {order['support_contact']}" if order["support_contact"] else ""
    return NotPayable(
        f"{name} does not accept this payment, and trying again will not help; we have informed the organizer."
        f" Your seats are held until {until}.{other}{contact}"
    )


def _other_way(provider: str, currency: str) -> str:
    """Return a hint at the other service, if it is configured and accepts the currency."""
    others = [
        name for name in SERVICES if name != provider and app.services.is_set(name) and is_taken_by(name, currency)
    ]
    return f" You can pay with {NAMES[others[0]]}." if others else ""


def _reason(outcome: ServiceAnswer | NotSet) -> tuple[str, bool]:
    """Return the failure as status and code, and whether a person must change something before a retry can work."""
    match outcome:
        case NotSet():
            return str(outcome), True
        case Refused(reason, permanent=permanent):
            is_about_credentials = reason.startswith(("HTTP 401", "HTTP 403"))
            return ": ".join(reason.split(": ")[:2]), permanent or is_about_credentials
        case Throttled():
            return "HTTP 429", False
        case Unreachable(reason) | Unknown(reason):
            return reason, False
        case Accepted():
            return "the answer has no payment page", False
