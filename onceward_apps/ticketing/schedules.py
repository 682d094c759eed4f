"""Housekeeping by the clock. Nothing depends on it being punctual: expiry is a predicate, and each run may be repeated."""

from __future__ import annotations

from typing import Any

from onceward import Run, Tx
from onceward_apps.ticketing import buying
from onceward_apps.ticketing.app import app
from onceward_apps.ticketing.handlers import reconcile
from onceward_apps.ticketing.store import buying as rows

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


@app.every(30, name="ticketing.expire_holds")
async def expire_holds(run: Run) -> None:
    """Show seats as free whose hold is over."""
    await run.each(await run.fetch(DUE_HOLDS), free_seats)


async def free_seats(row: Any, tx: Tx) -> None:
    while (await rows.expire_holds(tx))[0]:
        pass


@app.every(60, name="ticketing.expire_checkouts")
async def expire_checkouts(run: Run) -> None:
    """Close checkouts whose time is over; a payment that comes later sells what is still free."""
    await run.each(await run.fetch(DUE_CHECKOUTS), expire_checkout)


async def expire_checkout(row: Any, tx: Tx) -> None:
    await buying.end(tx, row["id"], "expired", of=("started", "failed"))


@app.every(300, name="ticketing.reconcile_payments")
async def reconcile_payments(run: Run) -> None:
    """Ask about checkouts that were sent to pay and not heard of: a webhook may have been lost."""
    await run.each(await run.fetch(UNSETTLED), ask)


async def ask(row: Any, tx: Tx) -> None:
    await tx.enqueue(reconcile.once(f"reconcile:{row['id']}"), checkout_id=row["id"])
