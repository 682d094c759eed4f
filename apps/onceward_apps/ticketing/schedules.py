"""Scheduled housekeeping. A late run does no harm, because queries check expiry themselves; every run may be repeated."""

from __future__ import annotations

from typing import Any

from onceward import Run, Tx
from onceward_apps.ticketing import baskets, jobs
from onceward_apps.ticketing.app import app
from onceward_apps.ticketing.handlers import reconcile
from onceward_apps.ticketing.store import baskets as rows

DUE_HOLDS = """
select distinct organization_id, organization_id as id
  from ticketing.seat_holds where status = 'active' and held_until <= onceward.now()
"""
DUE_CHECKOUTS = """
select id, organization_id from ticketing.checkouts
 where status in ('started', 'failed') and expires_at <= onceward.now() order by expires_at limit 5000
"""
UNSETTLED = """
select c.id, c.organization_id from ticketing.checkouts c
 where c.status in ('started', 'expired', 'abandoned', 'failed') and c.provider_session is not null
   and c.payment_closed_at is null
   and c.started_at between onceward.now() - interval '26 hours' and onceward.now() - interval '2 minutes'
   and not exists (select from ticketing.payments p where p.checkout_id = c.id)
 order by c.started_at limit 5000
"""
# PayPal pages cannot be closed. An order there can be approved for some hours; after that nobody asks about it.
OLDER_PAGES = """
select p.checkout_id as id, p.organization_id, p.provider, p.provider_session as session from ticketing.older_pages p
 where p.ended_at is null and p.replaced_at > onceward.now() - interval '26 hours'
 order by p.replaced_at limit 5000
"""
# Refunds that are not final every hour; finished ones every day for a month, in which a bank may return the money.
REFUNDS_TO_FOLLOW = """
select r.id, r.organization_id, p.provider, p.provider_payment_id as payment, r.provider_refund_id as reference
  from ticketing.refunds r join ticketing.payments p on p.id = r.payment_id
 where r.provider_refund_id is not null and r.method = 'service'
   and ((r.status = 'pending' and r.checked_at <= onceward.now() - interval '1 hour')
     or (r.status = 'done' and r.checked_at <= onceward.now() - interval '1 day'
         and r.done_at >= onceward.now() - interval '30 days'))
 order by r.checked_at limit 5000
"""
# A payment may be recorded at the moment when the webhook of its refund looks for it and finds nothing.
EARLY_REFUNDS = """
select distinct p.organization_id, p.id, p.provider, p.provider_payment_id as payment
  from ticketing.early_refunds e
  join ticketing.payments p on p.provider = e.provider and p.provider_payment_id = e.provider_payment_id
 limit 5000
"""
FORGET_EARLY_REFUNDS = "delete from ticketing.early_refunds where received_at < onceward.now() - interval '7 days'"


@app.every(30, name="ticketing.expire_holds")
async def expire_holds(run: Run) -> None:
    """Show seats as free when their hold has expired."""
    await run.each(await run.fetch(DUE_HOLDS), free_seats)


async def free_seats(row: Any, tx: Tx) -> None:
    while (await rows.expire_holds(tx))[0]:
        pass


@app.every(60, name="ticketing.expire_checkouts")
async def expire_checkouts(run: Run) -> None:
    """End checkouts whose time is over. A later payment still sells seats that are free."""
    await run.each(await run.fetch(DUE_CHECKOUTS), expire_checkout)


async def expire_checkout(row: Any, tx: Tx) -> None:
    await baskets.end(tx, row["id"], "expired", of=("started", "failed"))


@app.every(300, name="ticketing.reconcile_payments")
async def reconcile_payments(run: Run) -> None:
    """Ask the payment service about checkouts with an open payment page: a webhook may have been lost."""
    await run.each(await run.fetch(UNSETTLED), ask)


async def ask(row: Any, tx: Tx) -> None:
    await tx.enqueue(reconcile.unique(f"reconcile:{row['id']}"), checkout_id=row["id"])


@app.every(300, name="ticketing.end_older_pages")
async def end_older_pages(run: Run) -> None:
    """Close replaced payment pages, and record what was paid on them."""
    await run.each(await run.fetch(OLDER_PAGES), end_older_page)


async def end_older_page(row: Any, tx: Tx) -> None:
    await tx.enqueue(
        jobs.close_payment.unique(f"close:{row['session']}", forever=True),
        provider=row["provider"],
        session=row["session"],
    )
    await tx.enqueue(
        reconcile.unique(f"reconcile:{row['id']}:{row['session']}"),
        checkout_id=row["id"],
        provider=row["provider"],
        session=row["session"],
    )


@app.every(300, name="ticketing.follow_refunds")
async def follow_refunds(run: Run) -> None:
    """Ask the payment service about refunds that are not final, and about those that a bank may still return."""
    await run.each(await run.fetch(REFUNDS_TO_FOLLOW), ask_about_refund)


async def ask_about_refund(row: Any, tx: Tx) -> None:
    order = jobs.follow_refund.unique(f"follow:{row['provider']}:{row['reference']}")
    await tx.enqueue(order, provider=row["provider"], payment=row["payment"], reference=row["reference"])


@app.every(60, name="ticketing.apply_early_refunds")
async def apply_early_refunds(run: Run) -> None:
    """Book refunds whose webhook came before the payment. Refunds of unknown payments are deleted after a week."""
    await run.each(await run.fetch(EARLY_REFUNDS), apply_early_refund)
    await run.fetch(FORGET_EARLY_REFUNDS)


async def apply_early_refund(row: Any, tx: Tx) -> None:
    await jobs.apply_early_refunds(tx, row["provider"], row["payment"])
