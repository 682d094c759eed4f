"""Payments in the dashboard: lists of payments, refunds, disputes, payouts and differences, and what operators do
with money."""

from __future__ import annotations

from uuid import UUID

from pydantic import BaseModel, Field

from onceward.desk import Act, Column, Desk, DeskFigure, Detail, Listing, Related
from onceward.errors import OncewardError
from onceward.money import Money
from onceward.payments import payment_search
from onceward.tx import Tx
from onceward.web.dashboard import ActionRefused
from onceward.web.dashboard.contribution import Hit, Pages
from onceward.web.dashboard.page import View
from onceward.web.exposure import ANYTHING

MOST_HITS = 20

PAYMENT = {
    "created": "Not opened",
    "open": "Open",
    "processing": "Processing",
    "paid": "Paid",
    "partly_refunded": "Refunded in part",
    "refunded": "Refunded",
    "disputed": "Disputed",
    "lost": "Lost",
    "failed": "Failed",
    "expired": "Expired",
}
REFUND = {
    "requested": "Requested",
    "sent": "Sent",
    "pending": "At the bank",
    "done": "Done",
    "failed": "Failed",
    "settled": "Settled by hand",
}
DISPUTE = {"inquiry": "Inquiry", "open": "Open", "won": "Won", "lost": "Lost"}
BATCH = {"running": "Going on", "asked": "All requested", "done": "Done", "stopped": "Stopped"}
PAYOUT = {"pending": "On its way", "paid": "Paid", "failed": "Failed"}
OPEN_REFUNDS = "r.status in ('requested', 'sent', 'pending', 'failed')"
TIMELINE = """
select created_at as at, 'Payment asked for' as what, '' as who from onceward.payments where id = $1::uuid
union all select paid_at, 'Paid, and ' || decision || coalesce(': ' || decided_reason, ''), '' from onceward.payments
 where id = $1::uuid and paid_at is not null
union all select ended_at, 'Ended without money' || coalesce(': ' || failure, ''), '' from onceward.payments
 where id = $1::uuid and ended_at is not null
union all select created_at, 'Refund requested: ' || reason, requested_by from onceward.payment_refunds
where payment_id = $1::uuid
union all select done_at, 'Refund ' || status, '' from onceward.payment_refunds where payment_id = $1::uuid
and done_at is not null
union all select created_at, 'Dispute opened: ' || reason, '' from onceward.payment_disputes where payment_id = $1::uuid
union all select decided_at, 'Dispute ' || status, '' from onceward.payment_disputes
 where payment_id = $1::uuid and decided_at is not null
union all select created_at, 'Booked: ' || kind, '' from onceward.payment_journals where payment_id = $1::uuid
"""

desk = Desk("payments", "Payments", None, table="onceward.payments", order=60)

REFUNDS = Listing(
    name="refunds",
    title="Refunds",
    noun="refund",
    rows="onceward.payment_refunds r join onceward.payments p on p.id = r.payment_id",
    order="-created_at",
    presets=(("Failed", "status=failed"),),
    columns=(
        Column("bought", "For", "p.subject_type || ' ' || p.subject_id", wide=True),
        Column("amount", "Amount", kind="money", currency="r.currency"),
        Column("status", "State", words=REFUND, tones={"done": "good", "failed": "bad"}, filter=True),
        Column("reason", "Reason"),
        Column("failure", "Why it failed", wide=True),
        Column("created_at", "Requested", kind="time", sort=True, filter=True),
    ),
    empty="Refunds appear here when somebody requests one, or makes one at the payment service.",
)
DISPUTES = Listing(
    name="disputes",
    title="Disputes",
    noun="dispute",
    rows="onceward.payment_disputes r join onceward.payments p on p.id = r.payment_id",
    order="-created_at",
    columns=(
        Column("bought", "For", "p.subject_type || ' ' || p.subject_id", wide=True),
        Column("amount", "Amount", kind="money", currency="r.currency"),
        Column("status", "State", words=DISPUTE, tones={"open": "bad", "inquiry": "warn", "won": "good"}, filter=True),
        Column("reason", "Reason"),
        Column("reference", "At the service", wide=True),
        Column("created_at", "Opened", kind="time", sort=True, filter=True),
    ),
    empty="If a buyer's bank asks for a payment back, it appears here.",
)
PAYMENTS = desk.listing(
    Listing(
        name="payments",
        title="Payments",
        noun="payment",
        rows="onceward.payments r join onceward.payment_accounts a on a.id = r.account_id",
        order="-created_at",
        presets=(("Disputed", "status=disputed"), ("Refunded in part", "status=partly_refunded")),
        columns=(
            Column("subject_type", "For"),
            Column("subject_id", "Id of what is paid for", filter=True, wide=True),
            Column(
                "amount", "Amount", "coalesce(nullif(r.received, 0), r.amount)", kind="money", currency="r.currency"
            ),
            Column(
                "status",
                "State",
                words=PAYMENT,
                tones={"paid": "good", "disputed": "bad", "lost": "bad", "failed": "quiet", "expired": "quiet"},
                filter=True,
            ),
            Column("payer", "Payer", "lower(r.email)", filter=True, wide=True),
            Column("charge", "Id at the service", filter=True, wide=True),
            Column("created_at", "Created", kind="time", sort=True, filter=True),
        ),
        empty="Payments appear here as soon as your app opens one with tx.payments.open.",
    ),
    detail=Detail(
        title="r.title",
        facts=(
            Column("account", "Account", "a.name || ', ' || a.service"),
            Column("received", "Received", kind="money", currency="r.currency"),
            Column("refunded", "Refunded", kind="money", currency="r.currency"),
            Column("withheld", "Held by disputes", kind="money", currency="r.currency"),
            Column("fee", "Fee of the service", kind="money", currency="r.currency"),
            Column("decision", "Decision of the app"),
            Column("failure", "Last failure"),
            Column("expires_at", "Payable until", kind="time"),
        ),
        related=(Related(REFUNDS, by="r.payment_id"), Related(DISPUTES, by="r.payment_id")),
        timeline=TIMELINE,
    ),
)
desk.listing(REFUNDS, detail=Detail(title="'Refund: ' || r.reason", facts=(Column("reference", "Id at the service"),)))
desk.listing(DISPUTES)
desk.listing(
    Listing(
        name="batches",
        title="Many refunds",
        noun="list of refunds",
        plural="lists of refunds",
        rows="onceward.payment_refund_batches r",
        order="-created_at",
        columns=(
            Column("reason", "Reason", wide=True),
            Column("state", "State", words=BATCH, tones={"done": "good", "stopped": "bad"}, filter=True),
            Column("total", "Payments"),
            Column("asked", "Requested"),
            Column("refused", "Not possible"),
            Column("per_minute", "Each minute"),
            Column("created_at", "Started", kind="time", sort=True, filter=True),
        ),
        empty="If your app or `onceward payments refund-many` refunds many payments at once, it appears here.",
    )
)
desk.listing(
    Listing(
        name="payouts",
        title="Payouts",
        noun="payout",
        rows="onceward.payment_payouts r",
        order="-created_at",
        columns=(
            Column("reference", "At the service"),
            Column("amount", "Amount", kind="money", currency="r.currency"),
            Column("status", "State", words=PAYOUT, tones={"paid": "good", "failed": "bad"}, filter=True),
            Column("arrives_at", "Arrives", kind="time"),
            Column("created_at", "Reported", kind="time", sort=True, filter=True),
        ),
        empty="Payouts of the organization's own accounts appear here when the payment service reports them.",
    )
)
desk.listing(
    Listing(
        name="differences",
        title="Differences",
        noun="difference",
        rows="onceward.payment_differences r join onceward.payment_accounts a on a.id = r.account_id",
        id_type="bigint",
        order="-found_at",
        presets=(("Not resolved", "resolved=no"),),
        columns=(
            Column("kind", "What", filter=True),
            Column("reference", "At the service"),
            Column("detail", "What differs"),
            Column("resolved", "Resolved", "r.resolved_at is not null", kind="yes", filter=True),
            Column("account", "Account", "a.name", wide=True),
            Column("found_at", "Found", kind="time", sort=True, filter=True),
        ),
        empty="onceward payments check compares payments with the service, and lists here what differs.",
    )
)


class RefundForm(BaseModel):
    """How much goes back."""

    amount: Money | None = Field(None, title="Amount", description="Empty: all that remains at the payment service.")


class NoteForm(BaseModel):
    """How the buyer got the money."""

    note: str = Field(title="How the buyer got the money", min_length=2, max_length=300)


@desk.action(
    PAYMENTS,
    "Refund",
    model=RefundForm,
    when="r.received > r.refunded + r.withheld",
    reason=True,
    danger=True,
    causes=ANYTHING,
)
async def refund(tx: Tx, act: Act[RefundForm]) -> str:
    """Refund a payment, in full or in part."""
    try:
        made = await tx.payments.refund(UUID(act.id), amount=act.given.amount, reason=act.reason, by=act.by.actor)
    except OncewardError as error:
        raise ActionRefused(str(error)) from None
    if made is None:
        raise ActionRefused("Nothing is left to refund: a refund is under way, or a dispute holds the money.")
    return f"A refund of {made.amount} is requested."


@desk.action(REFUNDS, "Ask again", when="r.status in ('failed', 'requested', 'sent')", causes=ANYTHING)
async def repeat(tx: Tx, act: Act[BaseModel]) -> str:
    """Ask the service again for a refund that failed, or whose call has stopped."""
    try:
        made = await tx.payments.repeat(UUID(act.id))
    except OncewardError as error:
        raise ActionRefused(str(error)) from None
    return f"Attempt {made.attempt} of the refund is on its way."


@desk.action(REFUNDS, "Settle by hand", model=NoteForm, when=OPEN_REFUNDS, danger=True, causes=ANYTHING)
async def settle(tx: Tx, act: Act[NoteForm]) -> str:
    """Record that the buyer got the money another way."""
    try:
        made = await tx.payments.settle(UUID(act.id), note=act.given.note)
    except OncewardError as error:
        raise ActionRefused(str(error)) from None
    return f"The refund of {made.amount} is settled. It never starts again."


OWN = "($1::uuid is null or organization_id = $1)"
desk.figure(
    DeskFigure(
        title="Refunds that failed",
        sql=f"select count(*) from onceward.payment_refunds where {OWN} and status = 'failed'",
        listing="refunds",
        query="status=failed",
        warn_above=0,
    )
)
desk.figure(
    DeskFigure(
        title="Open disputes",
        sql=(
            f"select count(*) from onceward.payment_disputes where {OWN} and status in ('open', 'inquiry')"
            f" and ask_at is not null"
        ),
        listing="disputes",
        query="status=open",
        warn_above=0,
    )
)
desk.figure(
    DeskFigure(
        title="Differences",
        sql=f"select count(*) from onceward.payment_differences where {OWN} and resolved_at is null",
        listing="differences",
        query="resolved=no",
        warn_above=0,
    )
)


async def find_payments(view: View, text: str) -> list[Hit]:
    """Return the payments that a text names: the name or address of a buyer, the code of an order, an id."""
    if view.organization is None:
        return []
    async with view.site.engine.transaction(organization=view.organization) as tx:
        return [Hit("payment", row["id"]) for row in await payment_search.find(tx, text=text, limit=MOST_HITS)]


PAGES = desk.pages + Pages(finders=(find_payments,), paths={"payment": f"{desk.path}/{PAYMENTS.name}/row"})
