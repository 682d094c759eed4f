"""Calls to the payment service about subscriptions: nobody pays another instalment for a place that is gone or paid up."""

from __future__ import annotations

from uuid import UUID

from onceward import Job, Tx
from onceward.services import Accepted
from onceward_apps.learning.app import app
from onceward_apps.learning.service_calls import again_later
from onceward_apps.learning.store import access


@app.job(name="learning.cancel_subscription", outside=True, timeout=60)
async def cancel_subscription(job: Job, *, subscription: str, at_period_end: bool) -> str:
    """Cancel a subscription. The webhook about its end ends the access, unless every instalment was paid."""
    async with job.transaction() as tx:
        organization = tx.organization
    stripe = await app.services.stripe(organization)
    key = f"cancel:{subscription}:{'end' if at_period_end else 'now'}"
    outcome = await stripe.cancel_subscription(subscription, key=key, at_period_end=at_period_end)
    if not isinstance(outcome, Accepted):
        raise again_later(outcome)
    return str(outcome.detail.get("status"))


async def end_subscription(tx: Tx, subscription: str, *, at_period_end: bool) -> None:
    """Cancel a subscription after this commit."""
    key = f"cancel-subscription:{subscription}:{at_period_end}"
    job = cancel_subscription.unique(key, forever=True)
    await tx.enqueue(job, subscription=subscription, at_period_end=at_period_end)


async def end_subscriptions(tx: Tx, enrollment_id: UUID) -> None:
    """Cancel the subscriptions of an enrolment now: it was refunded."""
    for subscription in await access.running_subscriptions(tx, enrollment_id):
        await end_subscription(tx, subscription, at_period_end=False)
