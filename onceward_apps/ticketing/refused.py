"""Money that bought nothing: booked as owed to the buyer, sent back by a job, told to everyone who must know."""

from __future__ import annotations

from typing import Any

from onceward import Reply, Tx
from onceward.ledger import Entry, open_account
from onceward_apps.ticketing import jobs, notices
from onceward_apps.ticketing.model import ACCOUNTS, GiveBack, Payment
from onceward_apps.ticketing.store import refunds, sales


async def give_back(tx: Tx, checkout: Any, payment: Payment, verdict: GiveBack) -> dict[str, Any]:
    """Refund a payment in full, through the ledger. The first delivery is answered 400, a second payment 200.

    `checkout` is None where the organization that took the money may not see what it was meant for.
    """
    journal = await _receive(tx, payment)
    checkout_id = None if checkout is None else checkout["id"]
    payment_id = await sales.add_payment(
        tx, payment, checkout_id, purpose="refused", reason=verdict.reason, journal_id=journal
    )
    if payment_id is not None:
        refund_id = await refunds.add(
            tx,
            payment_id=payment_id,
            checkout_id=checkout_id,
            ticket_ids=[],
            amount_cents=payment.amount_cents,
            parts=None,
            currency=payment.currency,
            reason=verdict.reason,
            requested_by="ticketing",
        )
        await tx.enqueue(jobs.refund_payment.once(f"refund:{refund_id}", for_ever=True), refund_id=refund_id)
        await notices.payment_refused(tx, checkout, payment, verdict.reason)
        await tx.audit(
            "payment_refused",
            entity_type="Payment",
            entity_id=payment_id,
            changes={"amount_cents": payment.amount_cents, "currency": payment.currency, "reason": verdict.reason},
            metadata={"payment_processor": payment.provider, "webhook_event_id": payment.reference},
        )
    if verdict.reason == "second_payment" and checkout is not None:
        return {**checkout["result"], "second_payment": "refunded"}
    told = {"error": verdict.reason, "message": "The payment cannot be used and is refunded"}
    if checkout is None:
        return Reply(400, status="refused", **told)
    return Reply(400, status="refused", checkout_id=str(checkout_id), **told)


async def _receive(tx: Tx, payment: Payment) -> int:
    """Cash that is owed back. It may come in a currency that nothing was ever sold in."""
    for code in ("cash", "refunds_payable"):
        await open_account(tx, code, currency=payment.currency, kind=ACCOUNTS[code])
    journal = await tx.post(
        [Entry("cash", "refunds_payable", payment.amount_cents, payment.currency)],
        key=f"payment:{payment.provider}:{payment.id}",
        memo="payment to be given back",
    )
    return journal.id
