"""Scheduled housekeeping. A late run does no harm, because queries check expiry themselves; every run may be
repeated."""

from __future__ import annotations

from typing import Any

from onceward import Run, Tx
from onceward_apps.ticketing import baskets, waitlist
from onceward_apps.ticketing.app import app
from onceward_apps.ticketing.store import baskets as rows

DUE_HOLDS = """
select distinct organization_id, organization_id as id
  from ticketing.seat_holds where status = 'active' and held_until <= onceward.now()
"""
DUE_CHECKOUTS = """
select id, organization_id from ticketing.checkouts
 where status in ('started', 'failed') and expires_at <= onceward.now() order by expires_at limit 5000
"""
# Also events whose last person in the line was erased: they are for everybody again.
WITH_WAITLIST = """
select w.event_id as id, w.organization_id from ticketing.waitlist w where w.status in ('waiting', 'offered')
 union
select e.id, e.organization_id from ticketing.events e where e.has_waitlist
 order by 1 limit 5000
"""


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


@app.every(30, name="ticketing.offer_waitlist")
async def offer_waitlist(run: Run) -> None:
    """Offer places that became free to those who wait, and end offers whose time is over."""
    await run.each(await run.fetch(WITH_WAITLIST), offer_places)


async def offer_places(row: Any, tx: Tx) -> None:
    await waitlist.offer_next(tx, row["id"])
