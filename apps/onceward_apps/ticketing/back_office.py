"""What organizers do with an order besides refunding it: send its mail again, correct the buyer's address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

from onceward import Tx
from onceward_apps.ticketing import notices
from onceward_apps.ticketing.codes import read_code
from onceward_apps.ticketing.errors import CheckoutClosed, NotFound, NotRefundable
from onceward_apps.ticketing.store import orders, sales, views


async def mail_again(tx: Tx, order: Any) -> None:
    """Send the order's email again, with the tickets that are valid now."""
    rows = await views.tickets(tx, order["id"])
    places = [(row["ticket_code"], row["place"]) for row in rows if row["status"] in ("active", "scanned")]
    await notices.confirm(tx, order, places, again=uuid4().hex)


async def send_again(tx: Tx, checkout_id: UUID, *, actor: str) -> str:
    """Send the order's email again for an organizer, once a minute at most. Return the address."""
    await _locked(tx, checkout_id)
    order = await views.order(tx, checkout_id)
    if order["status"] != "completed":
        raise CheckoutClosed(f"this order is {order['status']}: it has no tickets to send")
    if (await views.mails_sent(tx, checkout_id))["recent"]:
        raise CheckoutClosed("the mail was sent again less than a minute ago")
    await mail_again(tx, order)
    await tx.audit("order_mail_sent_again", entity_type="Checkout", entity_id=checkout_id, actor=actor)
    return order["email"]


async def correct_buyer(tx: Tx, checkout_id: UUID, *, email: str, name: str, actor: str) -> bool:
    """Correct the buyer's address and name, also on the tickets that the buyer still has.

    If the address of a paid order changes, the links in its earlier mails end, because somebody else may have got them,
    and the tickets are sent to the new address. Return whether they are.
    """
    before = await _locked(tx, checkout_id)
    if before["status"] == "refunded":
        raise CheckoutClosed("this order is refunded")
    if (before["email"], before["name"]) == (email, name):
        return False
    is_sent = before["status"] == "completed" and before["email"] != email
    await orders.correct(tx, checkout_id, email, name, is_sent)
    if is_sent:
        await mail_again(tx, await views.order(tx, checkout_id))
    await tx.audit(
        "order_email_corrected",
        entity_type="Checkout",
        entity_id=checkout_id,
        changes={"email": before["email"] != email, "name": before["name"] != name},
        actor=actor,
    )
    return is_sent


async def tickets_by_code(tx: Tx, checkout_id: UUID, codes: Sequence[str]) -> list[UUID]:
    """Return the tickets of an order with these codes."""
    known = {row["ticket_code"]: row["id"] for row in await orders.codes(tx, checkout_id)}
    wrong = [code for code in codes if read_code(code) not in known]
    if wrong:
        raise NotRefundable(f"the order has no ticket {', '.join(wrong)[:200]}")
    return [known[code] for code in map(read_code, codes) if code is not None]


async def _locked(tx: Tx, checkout_id: UUID) -> Any:
    checkout = await sales.lock(tx, checkout_id)
    if checkout is None:
        raise NotFound(f"there is no order {checkout_id}")
    return checkout
