"""Jobs after refunds that failed: ask the payment service again, and report those of a cancelled cohort once."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward import Snooze, Tx
from onceward.messages import MessagesSettings
from onceward.payments import Refund
from onceward_apps.learning.app import app
from onceward_apps.learning.store import refunds

MAX_ATTEMPTS = 3
RETRY_HOURS = 1
REPORT_WAIT_S = 300


async def repeat_later(tx: Tx, refund: Refund) -> None:
    """Ask again for a refund that the bank returned, while attempts are left.

    One that the service refused waits for a person.
    """
    if refund.reference is not None and refund.attempt < MAX_ATTEMPTS:
        job = repeat_refund.unique(f"repeat:{refund.id}:{refund.attempt}", forever=True)
        await tx.enqueue(job.schedule_in(hours=RETRY_HOURS), refund_id=refund.id, attempt=refund.attempt)


@app.job(name="learning.repeat_refund", timeout=60)
async def repeat_refund(tx: Tx, *, refund_id: UUID, attempt: int) -> str:
    """Start the next attempt, unless somebody has repeated or settled the refund."""
    known = await refunds.find(tx, refund_id)
    if known is None or (known["status"], known["attempt"]) != ("failed", attempt):
        return "nothing to repeat"
    if await tx.payments.refundable(known["payment_id"]) <= 0:
        return "nothing is left of the payment"
    await tx.payments.repeat(refund_id)
    return "repeated"


async def report_soon(tx: Tx, cohort_id: UUID) -> None:
    """Report the refunds of a cancelled cohort that failed, once none is under way."""
    await tx.enqueue(report_failed_refunds.unique(f"failed-refunds:{cohort_id}"), cohort_id=cohort_id)


@app.job(name="learning.report_failed_refunds", timeout=60, critical=False)
async def report_failed_refunds(tx: Tx, *, cohort_id: UUID) -> int:
    """Tell operators which refunds of a cancelled cohort failed: one mail for all of them."""
    if await refunds.under_way(tx, cohort_id):
        raise Snooze(REPORT_WAIT_S, "refunds of the cohort are under way")
    failures = await refunds.failures(tx, cohort_id)
    if not failures:
        return 0
    listed: list[dict[str, Any]] = [
        {"enrollmentId": row["enrollment_id"], "amount": row["amount"], "currency": row["currency"]}
        | {"error": row["failure"]}
        for row in failures
    ]
    data = {"cohortId": str(cohort_id), "failedCount": len(failures), "failures": listed[:200]}
    for number, address in enumerate(app.services.settings.of(MessagesSettings).admin_emails):
        key = f"cohort:{cohort_id}:failed-refunds:{number}"
        await tx.send("failed-refunds-alert", to=address, key=key, data=data)
    title = f"{len(failures)} refunds of a cancelled cohort failed"
    details = {"cohort": str(cohort_id), "failed": len(failures)}
    await tx.notify_admins("FAILED_REFUNDS", "error", title, details, audience="accounting")
    return len(failures)
