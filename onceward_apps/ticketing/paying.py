"""Pay a checkout: open a payment page, look a payment up, take an approved one. Calls to the outside, so no transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from onceward import Engine
from onceward.services import Accepted, NotSet, Outcome, Refused, to_minor
from onceward_apps.ticketing import buying
from onceward_apps.ticketing.app import app
from onceward_apps.ticketing.errors import CheckoutClosed, NotFound, NotOnSale, NotPayable
from onceward_apps.ticketing.model import Payment, Provider
from onceward_apps.ticketing.notices import order_url
from onceward_apps.ticketing.selling import fulfil
from onceward_apps.ticketing.store import buying as rows
from onceward_apps.ticketing.store import reading

STRIPE_SHORTEST_S = 31 * 60
"""Stripe keeps a payment page open for half an hour at least; ours closes earlier, by `close_payment`."""
FREE = "none"
TAKEN = ("COMPLETED", "PARTIALLY_REFUNDED", "REFUNDED")
"""States of a PayPal capture whose money was taken, whatever went back since."""


@dataclass(frozen=True, slots=True)
class Opened:
    """Where the buyer goes next."""

    url: str
    provider: Provider


async def open_payment(engine: Engine, organization: UUID, checkout_id: UUID, provider: Provider) -> Opened:
    """A payment page for a checkout; the same one again when asked twice. What costs nothing is fulfilled at once."""
    async with engine.transaction(organization=organization) as tx:
        order = await reading.order(tx, checkout_id)
        if order is None:
            raise NotFound(f"there is no checkout {checkout_id}")
        if order["status"] not in ("started", "failed"):
            raise CheckoutClosed(f"this checkout is {order['status']}")
        if order["event_status"] == "cancelled":
            raise NotOnSale(f"{order['event_name']} is cancelled")
        now = await rows.clock(tx)
        if order["expires_at"] <= now:
            raise CheckoutClosed("this checkout's time is over: choose seats again")
        url = order_url(order)
        if order["total_cents"] == 0:
            await fulfil(tx, checkout_id, _free(order))
            return Opened(url, FREE)
        items = await reading.items(tx, checkout_id)
    outcome = await _open(order, items, provider, url)
    if not isinstance(outcome, Accepted):
        raise NotPayable(f"{provider} cannot take payments at the moment; the seats stay held, try again")
    page = str(outcome.detail.get("url") or outcome.detail.get("approve_url"))
    async with engine.transaction(organization=organization) as tx:
        await rows.set_payment(tx, checkout_id, provider, outcome.reference, page)
    return Opened(page, provider)


async def _open(order: Any, items: list[Any], provider: Provider, url: str) -> Outcome:
    metadata = {
        "checkout_id": str(order["id"]),
        "organization_id": str(order["organization_id"]),
        "event_id": str(order["event_id"]),
    }
    key = f"checkout:{order['id']}:pay:{provider}"
    try:
        if provider == "paypal":
            return await app.services.paypal.create_order(
                key=key,
                amount_minor=order["total_cents"],
                currency=order["currency"],
                custom_id=str(order["id"]),
                return_url=f"{url}&paid=paypal",
                cancel_url=f"{url}&cancelled=1",
                description=f"{order['event_name']}, {len(items)} tickets",
            )
        name = f"{order['event_name']}: {', '.join(item['place'] for item in items)}"
        price = {"currency": order["currency"].lower(), "unit_amount": order["total_cents"]}
        return await app.services.stripe.create_checkout_session(
            key=key,
            line_items=[{"quantity": 1, "price_data": {**price, "product_data": {"name": name[:250]}}}],
            success_url=f"{url}&paid=stripe",
            cancel_url=f"{url}&cancelled=1",
            client_reference_id=str(order["id"]),
            customer_email=order["email"],
            metadata=metadata,
            expires_at=int(order["started_at"].timestamp()) + STRIPE_SHORTEST_S,
        )
    except NotSet as error:
        raise NotPayable(str(error)) from error


def _free(order: Any) -> Payment:
    return Payment(
        provider=FREE,
        id=f"free:{order['id']}",
        reference=f"free:{order['id']}",
        amount_cents=0,
        currency=order["currency"],
    )


async def look_up(checkout: Any) -> Payment | None:
    """What the payment service says: the payment, taken now if it was only approved. None: not paid.

    Raises `Closed` when it can no longer be paid, `Declined` when the buyer's means of payment was refused, `Unanswered`
    when the service does not say.
    """
    session = checkout["provider_session"]
    match checkout["provider"]:
        case "stripe":
            return _stripe(checkout, _answer(await app.services.stripe.retrieve_checkout_session(session)))
        case "paypal":
            return await _paypal(checkout, session)
        case _:
            return None


class Unanswered(Exception):
    """The payment service cannot be asked; the outcome says why."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(type(outcome).__name__)
        self.outcome = outcome


class Declined(Exception):
    """The payment service refused the buyer's means of payment: nothing was taken, and the buyer may try another."""


class Closed(Exception):
    """The payment page was closed without being paid, for good."""


def _answer(outcome: Outcome) -> Any:
    if not isinstance(outcome, Accepted):
        raise Unanswered(outcome)
    return outcome.detail


def _stripe(checkout: Any, session: Any) -> Payment | None:
    if session.get("status") == "expired":
        raise Closed
    if session.get("payment_status") != "paid" or not session.get("payment_intent"):
        return None
    metadata = session.get("metadata") or {}
    return Payment(
        provider="stripe",
        id=session["payment_intent"],
        reference=session["id"],
        amount_cents=session["amount_total"],
        currency=str(session["currency"]).upper(),
        organization=UUID(metadata["organization_id"]) if metadata.get("organization_id") else None,
        event=checkout["event_id"],
    )


async def _paypal(checkout: Any, order_id: str) -> Payment | None:
    """An approved order is taken while the checkout is open; afterwards it is left alone, and nobody has paid."""
    order = _answer(await app.services.paypal.get_order(order_id))
    if order.get("status") == "APPROVED" and checkout["status"] in ("started", "failed"):
        key = f"checkout:{checkout['id']}:capture:{order_id}"
        outcome = await app.services.paypal.capture_order(order_id, key=key)
        if isinstance(outcome, Refused) and outcome.permanent:
            raise Declined(outcome.reason)
        order = _answer(outcome)
    for unit in order.get("purchase_units") or ():
        for capture in (unit.get("payments") or {}).get("captures") or ():
            if capture.get("status") in TAKEN:
                return paypal_payment(capture, reference=order_id)
            if capture.get("status") in ("DECLINED", "FAILED"):
                raise Declined(f"capture {capture['status']}")
    return None


def paypal_payment(capture: Any, *, reference: str) -> Payment:
    """A capture as PayPal shows it."""
    currency = str(capture["amount"]["currency_code"]).upper()
    return Payment(
        provider="paypal",
        id=capture["id"],
        reference=reference,
        amount_cents=to_minor(capture["amount"]["value"], currency),
        currency=currency,
    )


async def cancel(engine: Engine, organization: UUID, checkout_id: UUID) -> None:
    """The buyer came back without paying and gives up."""
    async with engine.transaction(organization=organization) as tx:
        await buying.abandon(tx, checkout_id)
