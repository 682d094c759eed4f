"""Notify people: buyers by email, the organization's staff by notices, dashboards by topic."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from onceward import Engine, Tx
from onceward.payments import Payment, Refund
from onceward_apps.ticketing import metrics
from onceward_apps.ticketing.app import app
from onceward_apps.ticketing.codes import holder_token, order_token, waitlist_token
from onceward_apps.ticketing.model import AUDIENCE, Occupancy, Reason
from onceward_apps.ticketing.store import keys, sales

TITLES: dict[Reason, str] = {
    "currency_mismatch": "A payment has another currency than its checkout",
    "amount_mismatch": "A payment has another amount than its checkout",
    "checkout_abandoned": "A checkout was paid after the buyer abandoned it or started another one",
    "second_payment": "A checkout was paid twice",
    "seats_gone": "A payment came too late: another buyer has the seats",
    "coupon_used_up": "A payment came too late: the coupon of the order is used up",
    "event_cancelled": "A payment came for an event that is cancelled",
    "erased": "A payment came from a buyer whose data was erased",
}


NO_EMAIL = "none@invalid"
"""The address of a buyer at the box office who gave none. Nothing is sent to it."""


def order_url(engine: Engine, checkout: Any) -> str:
    """Return the URL of the order page. Its token gives access. (PayPal adds its own parameter `token` to the URL.)"""
    token = order_token(keys.key_of(engine, checkout), checkout["id"], checkout["link_version"])
    return f"{app.services.settings.url}/orders/{checkout['id']}?access={token}"


def buyer_of(order: Any) -> dict[str, Any]:
    """Return the buyer as a recipient: times in the mail are those at the venue."""
    return {"email": order["email"], "locale": order["locale"], "timezone": order["timezone"]}


async def _mail(
    tx: Tx, template: str, *, to: Any, key: str, data: dict[str, Any], expires_at: datetime | None = None
) -> None:
    """Send a mail, unless its recipient has no address. One that came after `expires_at` would mislead."""
    if (to["email"] if isinstance(to, dict) else to) != NO_EMAIL:
        await tx.send(template, to=to, key=key, data=data, expires_at=expires_at)


async def ticket_received(tx: Tx, ticket: Any) -> None:
    """Email the ticket to the person who received it by transfer, with the link to its page."""
    token = holder_token(keys.key_of(tx.engine, ticket), ticket["id"])
    await _mail(
        tx,
        "ticket-transferred",
        to={"email": ticket["holder_email"], "timezone": ticket["timezone"]},
        key=f"ticket:{ticket['id']}:transferred",
        data={
            "name": ticket["holder_name"],
            "event": ticket["event_name"],
            "starts_at": ticket["starts_at"],
            "code": ticket["ticket_code"],
            "place": ticket["place"],
            "ticket_url": f"{app.services.settings.url}/tickets/{ticket['id']}?access={token}",
        },
    )


async def confirm(tx: Tx, checkout: Any, places: list[tuple[str, str]], *, again: str | None = None) -> None:
    """Send the order's email. `again` is part of the unique key and makes it a new message."""
    await _mail(
        tx,
        "order-confirmation",
        to=buyer_of(checkout),
        key=f"checkout:{checkout['id']}:confirmation" + (f":{again}" if again else ""),
        data={
            "name": checkout["name"],
            "event": checkout["event_name"],
            "organizer": checkout["organizer"],
            "starts_at": checkout["starts_at"],
            "timezone": checkout["timezone"],
            "venue": checkout["venue_name"],
            "address": checkout["venue_address"],
            "tickets": [{"code": code, "place": place} for code, place in places],
            "total_cents": checkout["total_cents"],
            "currency": checkout["currency"],
            "order_url": order_url(tx.engine, checkout),
            "refund_policy": checkout["refund_policy"],
            "support_contact": checkout["support_contact"],
        },
    )


async def payment_refused(tx: Tx, checkout: Any, payment: Payment, reason: Reason) -> None:
    """Notify the staff that the reason concerns, and tell the buyer about the refund."""
    tx.after_commit(metrics.REFUSED.labels(reason).inc)
    await tx.notify_admins(
        "PAYMENT_REFUSED",
        "error" if AUDIENCE[reason] != "admin" else "warn",
        TITLES[reason],
        {
            "reason": reason,
            "provider": payment.service,
            "payment": payment.charge,
            "amount_cents": payment.received,
            "currency": payment.amount.currency,
            "checkout": str(checkout["id"]),
        },
        audience=AUDIENCE[reason],
    )
    if reason == "erased":
        return
    await _mail(
        tx,
        "payment-refunded",
        to={"email": checkout["email"], "locale": checkout["locale"]},
        key=f"payment:{payment.id}:refused",
        data={
            "name": checkout["name"],
            "event": checkout["event_name"],
            "reason": reason,
            "amount_cents": payment.received,
            "currency": payment.amount.currency,
            "support_contact": checkout["support_contact"],
        },
    )


def waitlist_url(engine: Engine, entry: Any) -> str:
    token = waitlist_token(keys.key_of(engine, entry), entry["id"])
    return f"{app.services.settings.url}/waitlist/{entry['id']}?access={token}"


async def waitlist_joined(tx: Tx, entry: Any) -> None:
    """Tell somebody that they wait for places, with the link by which they leave the line."""
    await _mail(
        tx,
        "waitlist-joined",
        to=buyer_of(entry),
        key=f"waitlist:{entry['id']}:joined",
        data={
            "name": entry["name"],
            "event": entry["event_name"],
            "starts_at": entry["starts_at"],
            "seats": entry["seats"],
            "url": waitlist_url(tx.engine, entry),
        },
        expires_at=entry["starts_at"],
    )


async def waitlist_offered(tx: Tx, entry: Any) -> None:
    """Offer places to somebody who waited, until the offer ends."""
    await _mail(
        tx,
        "waitlist-offered",
        to=buyer_of(entry),
        key=f"waitlist:{entry['id']}:offered",
        data={
            "name": entry["name"],
            "event": entry["event_name"],
            "starts_at": entry["starts_at"],
            "seats": entry["places"],
            "until": entry["offer_until"],
            "url": waitlist_url(tx.engine, entry),
        },
        expires_at=entry["offer_until"],
    )


async def let_in_wrongly(tx: Tx, event_id: UUID, gate: str, outcome: str) -> None:
    """Tell the staff that a door without a network let a guest in whose ticket does not admit."""
    tx.after_commit(metrics.LET_IN_WRONGLY.inc)
    await tx.notify_admins(
        "LET_IN_WRONGLY",
        "warn",
        "A door without a network let a guest in whose ticket did not admit",
        {"event": str(event_id), "gate": gate, "outcome": outcome},
    )


async def missing_accounts(tx: Tx, organization: UUID, event_id: UUID, problem: str) -> None:
    """Notify accounting in a separate transaction: the sale rolls back, the notice must stay."""
    async with tx.engine.transaction(organization=organization) as other:
        await other.notify_admins(
            "LEDGER_ACCOUNTS_MISSING",
            "error",
            "A sale cannot be booked: ledger accounts are missing",
            {"event": str(event_id), "problem": problem},
            audience="accounting",
        )


async def refunded_elsewhere(tx: Tx, refund: Refund, *, voided: int) -> None:
    """Tell accounting about a refund that a person made at the payment service."""
    await tx.notify_admins(
        "REFUNDED_ELSEWHERE",
        "warn",
        "A refund was made directly at the payment service and is booked",
        {
            "checkout": refund.payment.subject_id,
            "payment": refund.payment.charge,
            "amount_cents": refund.amount.amount,
            "currency": refund.amount.currency,
            "tickets_voided": voided,
        },
        audience="accounting",
    )


async def order_refunded(tx: Tx, checkout: Any, refund_id: UUID, amount_cents: int, codes: list[str]) -> None:
    """Email the buyer about the refund and the void tickets."""
    await _mail(
        tx,
        "order-refunded",
        to={"email": checkout["email"], "locale": checkout["locale"]},
        key=f"refund:{refund_id}:mail",
        data={
            "name": checkout["name"],
            "event": checkout["event_name"],
            "amount_cents": amount_cents,
            "currency": checkout["currency"],
            "codes": codes,
            "support_contact": checkout["support_contact"],
        },
    )


async def event_cancelled(tx: Tx, checkout: Any, amount_cents: int, tickets: Sequence[Any]) -> None:
    """Email the buyer, and everybody who received a ticket by transfer. Only the buyer gets a refund."""
    data = {
        "event": checkout["event_name"],
        "reason": checkout["cancel_reason"] or "",
        "currency": checkout["currency"],
        "support_contact": checkout["support_contact"],
    }
    await _mail(
        tx,
        "event-cancelled",
        to={"email": checkout["email"], "locale": checkout["locale"]},
        key=f"checkout:{checkout['id']}:event-cancelled",
        data={
            **data,
            "name": checkout["name"],
            "amount_cents": amount_cents,
            "codes": [ticket["ticket_code"] for ticket in tickets],
        },
    )
    for ticket in tickets:
        if ticket["holder_email"] and ticket["holder_email"] != checkout["email"]:
            await _mail(
                tx,
                "event-cancelled",
                to=ticket["holder_email"],
                key=f"ticket:{ticket['id']}:event-cancelled",
                data={**data, "name": ticket["holder_name"], "amount_cents": 0, "codes": [ticket["ticket_code"]]},
            )


async def event_moved(tx: Tx, order: Any, tickets: Sequence[Any]) -> None:
    """Email the new date to the buyer, who may get a refund, and to everybody who received a ticket by transfer."""
    is_paid = order["status"] == "completed"
    data = {
        "is_paid": is_paid,
        "event": order["event_name"],
        "moved_from": order["moved_from"],
        "starts_at": order["starts_at"],
        "timezone": order["timezone"],
        "venue": order["venue_name"],
        "reason": order["move_reason"] or "",
        "support_contact": order["support_contact"],
    }
    version, url = order["date_version"], order_url(tx.engine, order)
    await _mail(
        tx,
        "event-moved",
        to=buyer_of(order),
        key=f"checkout:{order['id']}:moved:{version}",
        data={
            **data,
            "name": order["name"],
            "order_url": url,
            "calendar_url": url.replace("?access=", "/calendar.ics?access="),
            "refund_until": order["refund_until"] if is_paid else None,
        },
    )
    for ticket in tickets:
        if ticket["holder_email"] and ticket["holder_email"] != order["email"]:
            await _mail(
                tx,
                "event-moved",
                to={"email": ticket["holder_email"], "timezone": order["timezone"]},
                key=f"ticket:{ticket['id']}:moved:{version}",
                data={**data, "name": ticket["holder_name"], "order_url": "", "calendar_url": "", "refund_until": None},
            )


async def occupancy_changed(
    tx: Tx,
    organization: UUID,
    event_id: UUID,
    what: str,
    seats: list[str],
    tickets: int,
    at: datetime,
    occupancy: Occupancy,
) -> None:
    """Broadcast the change and the occupancy, read in this transaction, to subscribers of the event."""
    await tx.broadcast(
        f"occupancy/{organization}/{event_id}",
        {
            "event": what,
            "seat_ids": seats,
            "ticket_count": tickets,
            "sold_at" if what == "seats_sold" else "released_at": at.isoformat(),
            "occupancy": occupancy.shown(),
            "timestamp": at.isoformat(),
        },
    )


async def nearly_sold_out(tx: Tx, checkout: Any, occupancy: Occupancy) -> None:
    """Notify the staff once per event."""
    if await sales.alert_once(tx, checkout["event_id"]):
        await tx.notify_admins(
            "EVENT_NEARLY_SOLD_OUT",
            "info",
            f"{checkout['event_name']} is {occupancy.percent(occupancy.sold)} % sold",
            {"event": str(checkout["event_id"]), **occupancy.shown()},
        )
