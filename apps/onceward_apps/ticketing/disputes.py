"""Disputes: what happens to the tickets while a buyer's bank or PayPal asks for the money back. The engine books the
money.

open ──won──▶  the tickets are valid again; of a cancelled event the money is refunded
  └───lost──▶  the tickets are void and the seats free
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward import Tx
from onceward.payments import Dispute
from onceward_apps.ticketing import after_sale, notices
from onceward_apps.ticketing.app import CHECKOUT, app
from onceward_apps.ticketing.errors import NotFound
from onceward_apps.ticketing.money_back import end_tickets
from onceward_apps.ticketing.store import disputes, refunds, sales


@app.payments.on_disputed(CHECKOUT)
async def follow_dispute(dispute: Dispute, tx: Tx) -> None:
    """Freeze, release or void the tickets. An inquiry takes no money and changes nothing."""
    if dispute.payment.decision != "accepted":
        return
    checkout = await sales.lock(tx, UUID(dispute.payment.subject_id))
    keeps = checkout["dispute_policy"] == "keep"
    match dispute.status:
        case "open" if not keeps:
            await disputes.freeze(tx, checkout["id"])
        case "won":
            await _won(tx, checkout, dispute)
        case "lost" if not keeps:
            live = await refunds.live_tickets(tx, checkout["id"])
            await end_tickets(tx, checkout, live, "disputed")
        case _:
            pass


async def _won(tx: Tx, checkout: Any, dispute: Dispute) -> None:
    if dispute.payment.status == "disputed":
        return  # another dispute of the same payment is open
    await disputes.release(tx, checkout["id"])
    if checkout["event_status"] == "cancelled":
        # The tickets are void since then; the money could not be refunded while its owner was not decided.
        refund = await after_sale.refund_rest(tx, checkout, reason="event cancelled", actor="disputes")
        if refund is not None:
            await notices.order_refunded(tx, checkout, refund.id, refund.amount.amount, [])


async def set_policy(tx: Tx, event_id: UUID, policy: str, *, actor: str) -> None:
    """Set what happens to the tickets of disputed payments, of disputes that are open too."""
    before = await disputes.lock_policy(tx, event_id)
    if before is None:
        raise NotFound(f"event {event_id} does not exist")
    if before == policy:
        return
    await disputes.set_policy(tx, event_id, policy)
    if policy == "keep":
        await disputes.release_event(tx, event_id)
    else:
        await disputes.freeze_event(tx, event_id)
    changes = {"dispute_policy": policy}
    await tx.audit("dispute_policy_set", entity_type="Event", entity_id=event_id, changes=changes, actor=actor)
