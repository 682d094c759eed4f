"""Refund payments that cannot be used: book the debt to the buyer, let a job send the money back, notify buyer and staff."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward import Reply, Tx
from onceward.ledger import Entry, open_account
from onceward_apps.ticketing import jobs, metrics, notices
from onceward_apps.ticketing.model import ACCOUNTS, GiveBack, Payment
from onceward_apps.ticketing.refund_calls import Attempt
from onceward_apps.ticketing.store import refunds, sales


async def give_back(tx: Tx, checkout: Any, payment: Payment, verdict: GiveBack) -> dict[str, Any]:
    """Refund a payment in full through the ledger. Reply 400, or 200 if it is a second payment for a paid order."""
    journal = await _receive(tx, payment)
    checkout_id = checkout["id"]
    payment_id = await sales.add_payment(
        tx, payment, checkout_id, purpose="refused", reason=verdict.reason, journal_id=journal
    )
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
    order = jobs.refund_payment.unique(Attempt(refund_id, 1).key, forever=True)
    await tx.enqueue(order, refund_id=refund_id, attempt=1)
    await notices.payment_refused(tx, checkout, payment, verdict.reason)
    await tx.audit(
        "payment_refused",
        entity_type="Payment",
        entity_id=payment_id,
        changes={"amount_cents": payment.amount_cents, "currency": payment.currency, "reason": verdict.reason},
        metadata={"payment_processor": payment.provider, "webhook_event_id": payment.reference},
    )
    if verdict.reason == "second_payment":
        return {**checkout["result"], "second_payment": "refunded"}
    details = {"error": verdict.reason, "message": "The payment cannot be used and is refunded"}
    return Reply(400, status="refused", checkout_id=str(checkout_id), **details)


async def refuse_foreign(tx: Tx, checkout_id: UUID, payment: Payment) -> dict[str, Any]:
    """Reject a payment whose webhook source belongs to another organization than the checkout, and notify security.

    Nobody can know whose money it is, or whether the payment exists: the function records and refunds nothing.
    """
    tx.after_commit(metrics.REFUSED.labels("organization_mismatch").inc)
    await tx.notify_admins(
        "PAYMENT_REFUSED",
        "error",
        "A webhook source reported a payment for a checkout of another organization",
        {"reason": "organization_mismatch", "provider": payment.provider, "payment": payment.id},
        audience="security",
    )
    await tx.audit(
        "payment_not_believed",
        entity_type="Checkout",
        entity_id=checkout_id,
        metadata={"payment_processor": payment.provider, "webhook_event_id": payment.reference},
        reason="organization_mismatch",
    )
    return Reply(
        400,
        status="refused",
        error="organization_mismatch",
        message="The checkout does not belong to the organization of this source",
    )


async def _receive(tx: Tx, payment: Payment) -> int:
    """Book cash that we owe to the buyer. Its currency may be one in which nothing was ever sold."""
    for code in ("cash", "refunds_payable"):
        await open_account(tx, code, currency=payment.currency, kind=ACCOUNTS[code])
    journal = await tx.post(
        [Entry("cash", "refunds_payable", payment.amount_cents, payment.currency)],
        key=f"payment:{payment.provider}:{payment.id}",
        memo="payment to be refunded",
    )
    return journal.id
