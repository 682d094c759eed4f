"""Jobs that follow a sale or a refund: QR codes, counts, and calls to the payment services."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, assert_never
from uuid import UUID

from onceward import Job, Permanent, Retry, Snooze, Tx
from onceward.services import Accepted, Refused, ServiceAnswer, Throttled, Unknown, Unreachable
from onceward_apps.ticketing import documents, notices, refund_calls, reversals
from onceward_apps.ticketing.app import app
from onceward_apps.ticketing.store import invoices, keys, refunds, sales, views

WAIT_S = 60
ACCOUNT_WAIT_S = 15 * 60
"""How long a job waits before it retries after the payment service refused our credentials."""


@app.job(name="ticketing.generate_qr", max_attempts=5, timeout=30, outside=True)
async def generate_qr(job: Job, *, ticket_id: UUID) -> dict[str, str]:
    """Draw and store a ticket's QR code. The ticket is valid without it, and a repeat draws the same image."""
    async with job.transaction() as tx:
        ticket = await views.ticket(tx, ticket_id)
        if ticket is None:
            raise Permanent(f"there is no ticket {ticket_id}")
        key = keys.key_of(tx.engine, ticket)
    path = documents.qr_path(ticket)
    await app.services.files.put(path, documents.qr_png(key, ticket), content_type="image/png")
    async with job.transaction() as tx:
        await views.set_qr(tx, ticket_id, documents.qr_url(ticket))
    return {"path": path}


@app.job(name="ticketing.record_purchase", queue="analytics", max_attempts=1, timeout=10, critical=False)
async def record_purchase(tx: Tx, *, checkout_id: UUID) -> None:
    """Count a purchase into the funnel, once."""
    await sales.count_purchase(tx, checkout_id)


@app.job(name="ticketing.number_invoices", queue="invoices", batch=100, timeout=30)
async def number_invoices(jobs: list[Job], tx: Tx) -> None:
    """Give invoice numbers to the sales of one organization. A repeat changes nothing: a sale has one number."""
    await invoices.add(tx, [UUID(job.args["checkout_id"]) for job in jobs])


@app.job(name="ticketing.refund_payment", outside=True, timeout=60)
async def refund_payment(job: Job, *, refund_id: UUID, attempt: int = 1) -> dict[str, Any]:
    """Request a refund from the payment service. It is booked when the service says that the buyer has the money."""
    async with job.transaction() as tx:
        refund = await refunds.refund(tx, refund_id)
    if refund is None:
        raise Permanent(f"there is no refund {refund_id}")
    if refund["status"] == "done" or refund["attempt"] != attempt:
        return {"refund": refund["provider_refund_id"], "status": refund["status"]}
    outcome = await refund_calls.create(
        job.organization,
        refund["provider"],
        refund["provider_payment_id"],
        refund_calls.Attempt(refund_id, attempt),
        amount_cents=refund["amount_cents"],
        currency=refund["currency"],
        age_s=refund["age"].total_seconds(),
        checkout_id=refund["checkout_id"],
    )
    match outcome:
        case None:
            raise Permanent(f"refund {refund_id}: there is no payment service {refund['provider']!r}")
        case Accepted():
            service_refund = refund_calls.read(refund["provider"], refund["provider_payment_id"], outcome.detail)
            async with job.transaction() as tx:
                await reversals.follow(tx, replace(service_refund, attempt=refund_calls.Attempt(refund_id, attempt)))
            return {"refund": service_refund.id, "status": service_refund.status}
        case Refused(reason, permanent=True):
            async with job.transaction() as tx:
                if await reversals.fail_refund(tx, refund_id, reason):
                    # Perhaps somebody has already refunded it at the service.
                    because = f"refused:{refund_id}:{attempt}"
                    await look_at_refunds(tx, refund["provider"], refund["provider_payment_id"], because=because)
            raise Permanent(f"the payment service refuses the refund: {reason}")
        case _:
            raise await again(job, refund["provider"], outcome)


@app.job(name="ticketing.follow_refund", outside=True, timeout=60)
async def follow_refund(job: Job, *, provider: str, payment: str, reference: str) -> str:
    """Ask the payment service for the state of one refund, and do what its webhook would have done."""
    reported = await refund_calls.look_up(job.organization, provider, payment, reference)
    if not isinstance(reported, refund_calls.ServiceRefund):
        raise await again(job, provider, reported)
    async with job.transaction() as tx:
        result = await reversals.follow(tx, reported)
    if result == "waits":
        raise Snooze(WAIT_S, "one of our refunds of the same payment is in progress")
    return result


@app.job(name="ticketing.list_refunds", outside=True, timeout=60)
async def list_refunds(job: Job, *, provider: str, payment: str) -> dict[str, int]:
    """Ask the payment service for all refunds of a payment: somebody may have made one there."""
    reported = await refund_calls.list_all(job.organization, provider, payment)
    if not isinstance(reported, list):
        raise await again(job, provider, reported)
    counts: dict[str, int] = {}
    for refund in reported:
        async with job.transaction() as tx:
            result = await reversals.follow(tx, refund)
        counts[result] = counts.get(result, 0) + 1
    if "waits" in counts:
        raise Snooze(WAIT_S, "one of our refunds of the same payment is in progress")
    return counts


async def look_at_refunds(tx: Tx, provider: str, payment: str, *, because: str) -> None:
    """Enqueue a look-up of a payment's refunds, once per reason: a running look-up may have read an older state."""
    order = list_refunds.unique(f"refunds:{provider}:{payment}:{because}")
    await tx.enqueue(order, provider=provider, payment=payment)


async def follow_or_wait(tx: Tx, reported: refund_calls.ServiceRefund) -> reversals.Followed:
    """Apply the state of a refund now, or by a job later if it has to wait."""
    result = await reversals.follow(tx, reported)
    if result == "waits":
        later = follow_refund.schedule_in(seconds=WAIT_S).unique(f"follow:{reported.provider}:{reported.id}")
        await tx.enqueue(later, provider=reported.provider, payment=reported.payment, reference=reported.id)
    return result


async def apply_early_refunds(tx: Tx, provider: str, payment: str) -> None:
    """Book refunds whose webhooks came before the payment, in the commit that records the payment."""
    for row in await refunds.take_early(tx, provider, payment):
        reported = refund_calls.ServiceRefund(
            provider=provider,
            payment=payment,
            id=row["provider_refund_id"],
            amount_cents=row["amount_cents"],
            status=row["provider_status"],
        )
        if reported.state == "pending":
            order = follow_refund.schedule_in(seconds=WAIT_S).unique(f"follow:{provider}:{reported.id}")
            await tx.enqueue(order, provider=provider, payment=payment, reference=reported.id)
        else:
            await follow_or_wait(tx, reported)


@app.job(name="ticketing.close_payment", outside=True, max_attempts=5, timeout=30, critical=False)
async def close_payment(job: Job, *, provider: str, session: str) -> str:
    """Close the payment page of a checkout that ended. Best effort: a late payment is refunded."""
    if provider != "stripe":
        return "nothing to close"
    outcome = await (await app.services.stripe(job.organization)).expire_checkout_session(
        session, key=job.key("expire")
    )
    match outcome:
        case Accepted() | Refused(permanent=True):
            return "closed"
        case _:
            raise await again(job, provider, outcome)


async def again(job: Job, provider: str, outcome: ServiceAnswer) -> Retry | Snooze:
    """Return the error that makes the job retry a failed call under the same idempotency key.

    Refused credentials count as an outage: the job waits without counting attempts, and accounting gets a notice.
    """
    match outcome:
        case Refused(reason, account=True):
            async with job.transaction() as tx:
                await notices.account_refused(tx, provider, reason)
            return Snooze(ACCOUNT_WAIT_S, f"{provider} refuses our credentials: {reason}")
        case Throttled(after):
            return Retry("the payment service limits our request rate", after=after)
        case Refused(reason, retry_after_s=after):
            return Retry(reason, after=after)
        case Unreachable(reason) | Unknown(reason):
            return Retry(reason)
        case Accepted():
            return Retry("accepted, but not as expected")
        case _:
            assert_never(outcome)
