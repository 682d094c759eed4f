"""Jobs that follow a sale: QR codes, counts and invoice numbers."""

from __future__ import annotations

from uuid import UUID

from onceward import Job, Permanent, Tx
from onceward_apps.ticketing import documents
from onceward_apps.ticketing.app import app
from onceward_apps.ticketing.store import keys, sales, views


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
    """Issue invoices of sales, credit notes of refunds and corrections of one organization. A repeat issues nothing
    twice."""
    from onceward_apps.ticketing import invoice_book  # which asks for this job

    await invoice_book.issue(tx, [job.args for job in jobs])
