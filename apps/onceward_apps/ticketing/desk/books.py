"""What accountants see and do: settlements of the platform, and closing the books."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, Field

from onceward import Tx, ledger
from onceward.desk import Act, Column, Detail, Listing
from onceward.web.dashboard import ActionRefused
from onceward_apps.ticketing.desk.lists import desk

SETTLEMENTS = desk.listing(
    Listing(
        name="settlements",
        title="Settlements",
        noun="settlement",
        rows="ticketing.settlements r",
        order="-created_at",
        roles=("manager", "accountant"),
        columns=(
            Column("number", "Number", kind="number"),
            Column("since", "From", kind="time"),
            Column("until", "Until", kind="time"),
            Column("payout_cents", "Payout", kind="money", currency="r.currency"),
            Column("paid_at", "Paid", kind="time"),
            Column("paid_reference", "Reference", wide=True),
            Column("created_at", "Made", kind="time", sort=True),
        ),
        empty="When buyers pay on the platform's accounts, the platform settles with you. Its settlements appear here.",
    ),
    detail=Detail(
        title="'Settlement ' || r.number || ', ' || r.currency",
        facts=(
            Column(
                "cash",
                "Payments less refunds",
                sql="(r.statement->>'cash_cents')::bigint",
                kind="money",
                currency="r.currency",
            ),
            Column(
                "fees",
                "Fees of the platform",
                sql="(r.statement->>'fee_cents')::bigint",
                kind="money",
                currency="r.currency",
            ),
            Column(
                "events",
                "Events",
                sql="(select string_agg(v.name || ': ' || v.payments || ' payments', '; ')"
                " from jsonb_to_recordset(r.statement->'events') as v (name text, payments int))",
            ),
        ),
        also=("Settlement",),
        words={"settlement_made": "Made", "settlement_paid": "Paid"},
    ),
)


class CloseForm(BaseModel):
    """Up to when the books are closed."""

    until: datetime = Field(title="Close the books before", description="It must have been over for an hour.")
    note: str = Field("", title="Note", max_length=500)


@desk.action(SETTLEMENTS, "Close the books", on="list", model=CloseForm, roles=("manager", "accountant"))
async def close_books(tx: Tx, act: Act[CloseForm]) -> str:
    # Before the look: of two equal requests at the same time, one closes the books.
    await tx.execute(
        "select pg_advisory_xact_lock(hashtextextended('ticketing books ' || $1::uuid, 0))", tx.organization
    )
    if any(period.until == act.given.until for period in await ledger.periods(tx)):
        raise ActionRefused("the books are closed up to this time already")
    period = await ledger.close_period(tx, act.given.until, note=act.given.note, actor=act.by.actor)
    return f"The balances of {len(period.balances)} accounts are frozen as they were then."
