"""Handlers of Stripe's webhooks about disputes; `disputes` applies them. The events of a dispute come in any order."""

from __future__ import annotations

from pydantic import BaseModel, Field

from onceward import Event, Tx
from onceward.integrations.stripe import from_stripe
from onceward_apps.learning import disputes
from onceward_apps.learning.app import app
from onceward_apps.learning.disputes import State
from onceward_apps.learning.enrollments import Result
from onceward_apps.learning.stripe_handlers import NOT_OURS, SOURCE, Metadata, belongs, lane

# All other statuses are open. A closed inquiry (`warning_closed`) took no money.
STATES: dict[str, State] = {"won": "won", "warning_closed": "won", "prevented": "won", "lost": "lost"}


class Dispute(BaseModel):
    """`charge.dispute.*`."""

    id: str
    amount: int = Field(gt=0)
    currency: str = Field(min_length=3, max_length=3)
    reason: str = ""
    status: str = "needs_response"
    payment_intent: str | None = None
    metadata: Metadata = Metadata()


@app.on(SOURCE, "charge.dispute.created", ordering=lane)
async def dispute_created(event: Event[Dispute], tx: Tx) -> Result:
    return await _follow(tx, event.data)


@app.on(SOURCE, "charge.dispute.updated", ordering=lane)
async def dispute_updated(event: Event[Dispute], tx: Tx) -> Result:
    return await _follow(tx, event.data)


@app.on(SOURCE, "charge.dispute.closed", ordering=lane)
async def dispute_closed(event: Event[Dispute], tx: Tx) -> Result:
    return await _follow(tx, event.data)


async def _follow(tx: Tx, dispute: Dispute) -> Result:
    intent = dispute.payment_intent
    if intent is None or not await belongs(tx, dispute.metadata, payment=intent):
        return NOT_OURS
    currency = dispute.currency.upper()
    reported = disputes.ReportedDispute(
        id=dispute.id,
        payment_intent=intent,
        amount=from_stripe(dispute.amount, currency),
        currency=currency,
        reason=dispute.reason,
        status=dispute.status,
        state=STATES.get(dispute.status, "open"),
    )
    return await disputes.follow(tx, reported)
