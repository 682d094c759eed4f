"""Pay a checkout: the payment page of an order. The engine opens and closes it at the payment service."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal
from uuid import UUID

import structlog

from onceward import Engine, Tx
from onceward.money import Money
from onceward.payments import PaymentPending
from onceward_apps.ticketing import baskets, payment_ways
from onceward_apps.ticketing.app import ACCOUNTS, CHECKOUT, app
from onceward_apps.ticketing.codes import new_reference
from onceward_apps.ticketing.currencies import SERVICES, is_taken_by
from onceward_apps.ticketing.errors import CheckoutClosed, CurrencyNotTaken, NotFound, NotOnSale, NotPayable
from onceward_apps.ticketing.notices import order_url
from onceward_apps.ticketing.sales import FREE, sell_free
from onceward_apps.ticketing.store import baskets as rows
from onceward_apps.ticketing.store import shops, transfers, views

log = structlog.get_logger(__name__)

NAMES: dict[str, str] = {"stripe": "Stripe", "paypal": "PayPal", "by_hand": "Bank transfer"}
SHORTEST_S = 60
Service = Literal["stripe", "paypal", "by_hand"]


@dataclass(frozen=True, slots=True)
class Opened:
    """The page that the buyer goes to next."""

    url: str
    provider: str


async def open_payment(engine: Engine, organization: UUID, checkout_id: UUID, service: Service) -> Opened:
    """Return the open payment page of a checkout, or a new one. An order that costs nothing is sold at once.

    A checkout has one open page. Another service is another page, and the older one closes. If the order is paid
    already, the buyer goes to the order page.
    """
    async with engine.transaction(organization=organization) as tx:
        order = await _payable(tx, checkout_id)
        url = order_url(engine, order)
        if order["total_cents"] == 0:
            await sell_free(tx, checkout_id)
            return Opened(url, FREE)
        if service == "by_hand":
            order = await _transferred(tx, order)
        elif not is_taken_by(service, order["currency"]):
            other = _other_way(service, order["currency"])
            raise CurrencyNotTaken(f"{NAMES[service]} does not accept {order['currency']}.{other}")
        payment_id = await _open(tx, order, service, url)
    visit = await app.payments.visit(engine, payment_id, organization=organization)
    match visit.state:
        case "page" | "paid" | "processing" if visit.url is not None:
            return Opened(visit.url, service)
        case "ended":
            raise NotPayable("this order is being paid in another window: continue there, or try again in a minute")
        case state:
            raise await _refuse(engine, order, service, visit.reason, is_lasting=state == "refused")


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
    if order["expires_at"] <= order["now"]:
        raise CheckoutClosed("the time of this checkout is over: choose seats again")
    return order


async def _transferred(tx: Tx, order: Any) -> Any:
    """Let an order wait for a bank transfer: its page says where the money goes to, and with which reference."""
    if "by_hand" not in dict(await payment_ways.offered(tx, order["currency"], order)):
        raise CurrencyNotTaken(f"{order['organizer']} does not take bank transfers for this event: choose another way")
    shop = await shops.of(tx)
    if order["transfer_reference"] is None:
        await transfers.set_reference(tx, order["id"], new_reference())
        await baskets.wait_longer(tx, order, timedelta(days=shop["transfer_days"]))
    return await views.order(tx, order["id"])


async def _open(tx: Tx, order: Any, service: Service, url: str) -> UUID:
    items = await views.items(tx, order["id"])
    left_s = (order["expires_at"] - order["now"]).total_seconds()
    try:
        page = await tx.payments.open(
            CHECKOUT,
            order["id"],
            amount=Money(order["total_cents"], order["currency"]),
            title=f"{order['event_name']}: {', '.join(item['place'] for item in items)}",
            account=ACCOUNTS[service],
            success_url=f"{url}&paid={service}",
            cancel_url=f"{url}&cancelled=1",
            expires=max(SHORTEST_S, left_s),
            email=order["email"],
            locale=order["locale"],
        )
    except PaymentPending as error:
        raise NotPayable("the payment of this order is being processed: if it fails, you can pay again") from error
    return page.payment_id


async def look_up(tx: Tx, checkout_id: UUID) -> None:
    """Ask the payment service about the pages of a checkout: the buyer has returned, and no webhook has come yet."""
    for payment in await tx.payments.of(CHECKOUT, checkout_id):
        if payment.status in ("open", "processing"):
            await tx.payments.ask(payment.id)


async def _refuse(engine: Engine, order: Any, service: Service, reason: str, *, is_lasting: bool) -> NotPayable:
    """Log why a page could not be opened, notify the staff of what to fix, and return an error that helps the buyer.

    Logs and notices have status and code only, because the service's own message may contain the buyer's address.
    """
    reason = ": ".join(reason.split(": ")[:2])
    log.warning(
        "payment.page_refused",
        provider=service,
        reason=reason,
        checkout_id=str(order["id"]),
        organization_id=str(order["organization_id"]),
    )
    if is_lasting:
        async with engine.transaction(organization=order["organization_id"]) as tx:
            await tx.notify_admins(
                "PAYMENT_SERVICE_REFUSED",
                "error",
                f"{NAMES[service]} refuses to open payment pages: {reason}",
                {"provider": service, "reason": reason, "checkout": str(order["id"])},
            )
    name, until = NAMES[service], f"{order['expires_at']:%H:%M} UTC"
    other = _other_way(service, order["currency"])
    if not is_lasting:
        return NotPayable(
            f"{name} is not available at the moment. Your seats are held until {until}: try again.{other}"
        )
    contact = f" Questions: {order['support_contact']}" if order["support_contact"] else ""
    return NotPayable(
        f"{name} does not accept this payment, and trying again will not help; we have informed the organizer."
        f" Your seats are held until {until}.{other}{contact}"
    )


def _other_way(service: Service, currency: str) -> str:
    """Return a hint at the other service, if it is configured and accepts the currency."""
    others = [
        name for name in SERVICES if name != service and app.services.is_set(name) and is_taken_by(name, currency)
    ]
    return f" You can pay with {NAMES[others[0]]}." if others else ""


async def cancel(engine: Engine, organization: UUID, checkout_id: UUID) -> None:
    """Abandon the checkout of a buyer who returned without paying."""
    async with engine.transaction(organization=organization) as tx:
        await baskets.abandon(tx, checkout_id)
