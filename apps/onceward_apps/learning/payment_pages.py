"""End a checkout that another one replaces, and close its payment page.

A person has one payable checkout for a cohort. The page closes after the commit; a payment that arrives all the same is
refunded in full (`checkout_replaced`).
"""

from __future__ import annotations

from typing import Any

from onceward import Job, Tx
from onceward.capacity import release
from onceward.services import Accepted, Refused
from onceward_apps.learning.app import app
from onceward_apps.learning.service_calls import again_later
from onceward_apps.learning.store import payments


@app.job(name="learning.close_page", outside=True, max_attempts=5, timeout=60, critical=False)
async def close_page(job: Job, *, session: str) -> str:
    """Close a payment page. Best effort: the service refuses if the page was paid, and that payment is refunded."""
    stripe = await app.services.stripe(job.organization)
    outcome = await stripe.expire_checkout_session(session, key=f"close:{session}")
    match outcome:
        case Accepted():
            return "closed"
        case Refused(permanent=True, account=False):
            return "not open"
        case _:
            raise again_later(outcome)


async def close_soon(tx: Tx, session: str) -> None:
    """Close a payment page after this commit."""
    await tx.enqueue(close_page.unique(f"close:{session}", forever=True), session=session)


async def replace(tx: Tx, checkout: Any) -> bool:
    """End a started checkout, free its place and close its page. Return whether a place became free."""
    ended = await payments.end_checkout(tx, checkout["id"], "replaced")
    if ended is None:
        return False
    if ended["stripe_session_id"] is not None:
        await close_soon(tx, ended["stripe_session_id"])
    return ended["claim_id"] is not None and bool(await release(tx, [ended["claim_id"]]))
