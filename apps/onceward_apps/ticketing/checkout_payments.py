"""Pay a checkout: open a payment page, look a payment up, capture an approved one. External calls: no open transaction."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from onceward import Engine, Tx
from onceward.integrations.paypal import to_minor
from onceward.integrations.stripe import from_stripe
from onceward.services import Accepted, NotSet, Refused, ServiceAnswer
from onceward_apps.ticketing import baskets
from onceward_apps.ticketing.app import app
from onceward_apps.ticketing.errors import CheckoutClosed, NotFound, NotOnSale, NotPayable
from onceward_apps.ticketing.model import Payment, Provider
from onceward_apps.ticketing.notices import order_url
from onceward_apps.ticketing.payment_pages import (
    Opening,
    Unanswered,
    check_currency,
    close_page,
    open_page,
    page_state,
    refuse,
)
from onceward_apps.ticketing.sales import fulfil
from onceward_apps.ticketing.store import baskets as rows
from onceward_apps.ticketing.store import views

PAGE_LASTS = timedelta(minutes=31)
"""How long a payment page stays open. Stripe requires at least 30 minutes; `close_payment` closes it earlier."""
OPENING_LASTS = timedelta(seconds=20)
"""How long an unanswered opening is retried under the same key. After that, Stripe would refuse its expiry."""
MOST_TRIES = 3
FREE = "none"
TAKEN = ("COMPLETED", "PARTIALLY_REFUNDED", "REFUNDED")
"""States of a PayPal capture whose money was taken, refunded or not."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The page that the buyer goes to next."""

    url: str
    provider: Provider


async def open_payment(engine: Engine, organization: UUID, checkout_id: UUID, provider: Provider) -> Opened:
    """Return the open payment page of a checkout, or a new one. An order that costs nothing is fulfilled at once.

    A checkout has one open page. Before it opens another, the function asks the service about the older page and closes
    it. If that page was paid, the buyer goes to the order page, which records the payment.
    """
    for _ in range(MOST_TRIES):
        async with engine.transaction(organization=organization) as tx:
            order = await _payable(tx, checkout_id)
            url = order_url(engine, order)
            if order["total_cents"] == 0:
                await fulfil(tx, checkout_id, _free(order))
                return Opened(url, FREE)
            check_currency(provider, order["currency"])
            opening = None if order["provider_session"] else await _opening(tx, order, provider, url)
        if opening is not None:
            page = await _open(engine, opening)
            if page is not None:
                return Opened(page, provider)
        elif (page := await _older_page(engine, order, provider, url)) is not None:
            return Opened(page, provider)
    raise NotPayable("this order is being paid in another window: continue there, or try again in a minute")


async def _payable(tx: Tx, checkout_id: UUID) -> Any:
    """Lock the checkout and return it if it may be paid now."""
    await rows.checkout(tx, checkout_id, lock=True)
    order = await views.order(tx, checkout_id)
    if order is None:
        raise NotFound(f"there is no checkout {checkout_id}")
    if order["status"] not in ("started", "failed"):
        raise CheckoutClosed(f"this checkout is {order['status']}")
    if order["event_status"] == "cancelled":
        raise NotOnSale(f"{order['event_name']} is cancelled")
    if order["expires_at"] <= await rows.clock(tx):
        raise CheckoutClosed("the time of this checkout is over: choose seats again")
    return order


async def _opening(tx: Tx, order: Any, provider: Provider, url: str) -> Opening:
    """Begin an opening, or join the one that another request began a moment ago."""
    items = await views.items(tx, order["id"])
    row = await rows.begin_opening(tx, order["id"], provider, lasts=PAGE_LASTS, joined_for=OPENING_LASTS)
    return Opening(
        order=order,
        items=items,
        provider=provider,
        number=row["payment_opening"],
        expires_at=row["payment_expires_at"],
        return_url=url,
    )


async def _open(engine: Engine, opening: Opening) -> str | None:
    """Open the page and record it. None: the checkout ended or got another page first, and this page closes."""
    order, provider = opening.order, opening.provider
    try:
        outcome = await open_page(opening)
    except NotSet as error:
        raise await refuse(engine, order, provider, error) from error
    page = None
    if isinstance(outcome, Accepted):
        page = outcome.detail.get("url") or outcome.detail.get("approve_url")
    if not isinstance(outcome, Accepted) or outcome.reference is None or not page:
        raise await refuse(engine, order, provider, outcome)
    async with engine.transaction(organization=order["organization_id"]) as tx:
        if await rows.set_payment(tx, order["id"], opening.number, outcome.reference, str(page)):
            return str(page)
        await baskets.close_page(tx, provider, outcome.reference)
    return None


async def _older_page(engine: Engine, order: Any, provider: Provider, url: str) -> str | None:
    """Return where an order with a payment page is paid. None: that page is closed, and a new one may be opened."""
    older, session = order["provider"], order["provider_session"]
    try:
        state = await page_state(order["organization_id"], older, session)
        if state == "open" and older == provider:
            return order["payment_url"]
        if state == "open":
            state = await close_page(order["organization_id"], older, session)
    except (Unanswered, NotSet) as error:
        if older == provider:
            outcome = error.outcome if isinstance(error, Unanswered) else error
            raise await refuse(engine, order, provider, outcome) from error
        state = (
            "closed"  # the buyer chose the other service because this one is unavailable; a job closes the page later
        )
    if state == "paid":
        return f"{url}&paid={older}"
    async with engine.transaction(organization=order["organization_id"]) as tx:
        if await rows.forget_payment(tx, order["id"], session):
            await baskets.close_page(tx, older, session)
    return None


def _free(order: Any) -> Payment:
    return Payment(
        provider=FREE,
        id=f"free:{order['id']}",
        reference=f"free:{order['id']}",
        amount_cents=0,
        currency=order["currency"],
    )


async def look_up(checkout: Any) -> Payment | None:
    """Ask the payment service for the payment, and capture it now if it was only approved. None: not paid.

    Raises `Closed` if the page can no longer be paid, `Declined` if the service refused the buyer's card or account,
    `Unanswered` if the service gives no answer.
    """
    session = checkout["provider_session"]
    match checkout["provider"]:
        case "stripe":
            stripe = await app.services.stripe(checkout["organization_id"])
            return _stripe(checkout, _answer(await stripe.retrieve_checkout_session(session)))
        case "paypal":
            return await _paypal(checkout, session)
        case _:
            return None


class Declined(Exception):
    """The payment service refused the buyer's card or account. No money was taken, and the buyer may try another."""


class Closed(Exception):
    """The payment page was closed unpaid and cannot be paid any more."""


def _answer(outcome: ServiceAnswer) -> Any:
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
        amount_cents=from_stripe(session["amount_total"], session["currency"]),
        currency=str(session["currency"]).upper(),
        organization=UUID(metadata["organization_id"]) if metadata.get("organization_id") else None,
        event=checkout["event_id"],
    )


async def _paypal(checkout: Any, order_id: str) -> Payment | None:
    """Capture an approved order while the checkout is open. After that, an approved order counts as not paid."""
    paypal = await app.services.paypal(checkout["organization_id"])
    order = _answer(await paypal.get_order(order_id))
    if order.get("status") == "APPROVED" and checkout["status"] in ("started", "failed"):
        key = f"checkout:{checkout['id']}:capture:{order_id}"
        outcome = await paypal.capture_order(order_id, key=key)
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
    """Return the payment that a PayPal capture describes."""
    currency = str(capture["amount"]["currency_code"]).upper()
    return Payment(
        provider="paypal",
        id=capture["id"],
        reference=reference,
        amount_cents=to_minor(capture["amount"]["value"], currency),
        currency=currency,
    )


async def cancel(engine: Engine, organization: UUID, checkout_id: UUID) -> None:
    """Abandon the checkout of a buyer who returned without paying."""
    async with engine.transaction(organization=organization) as tx:
        await baskets.abandon(tx, checkout_id)
