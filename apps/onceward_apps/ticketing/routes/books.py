"""Routes for accountants: taxes by rate, trial balance of a date, closed periods, entries as a file, settlements."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Response
from fastapi.responses import StreamingResponse
from pydantic import AwareDatetime, BaseModel, Field

from onceward import ledger
from onceward.web import exposed
from onceward_apps.ticketing.errors import Invalid
from onceward_apps.ticketing.routes.requests import EngineHere, Operator, Viewer, acting
from onceward_apps.ticketing.store import books as accounting

router = APIRouter(prefix="/api/v1/ticketing/accounting", tags=["ticketing: accounting"])
MEDIA = {"csv": "text/csv; charset=utf-8", "journal": "text/plain; charset=utf-8"}
Time = Annotated[AwareDatetime, Query(description="With an offset from UTC: 2031-01-01T00:00:00Z")]


class CloseIn(BaseModel):
    """The period ends before `until`."""

    until: AwareDatetime
    note: str = Field("", max_length=500)


@router.get("/taxes")
async def taxes(engine: EngineHere, who: Viewer, since: Time, until: Time) -> list[dict[str, Any]]:
    """Return net and tax by currency, jurisdiction and rate, of the invoices and credit notes issued in a period."""
    async with acting(engine, who.organization) as tx:
        return [dict(row) for row in await accounting.taxes(tx, since, until)]


@router.get("/trial-balance")
async def trial_balance(engine: EngineHere, who: Viewer, until: Time) -> list[dict[str, Any]]:
    """Return the balances of all accounts as they were before a time, by currency."""
    async with acting(engine, who.organization) as tx:
        books = await ledger.trial_balance(tx, until=until)
    names = ("code", "kind", "debits", "credits", "balance")
    return [
        {
            "currency": book.currency,
            "difference": book.difference,
            "accounts": [{name: getattr(account, name) for name in names} for account in book.accounts],
        }
        for book in books
    ]


@router.get("/periods")
async def periods(engine: EngineHere, who: Viewer) -> list[dict[str, Any]]:
    """List the closed periods with their frozen balances, newest first."""
    async with acting(engine, who.organization) as tx:
        listed = await ledger.periods(tx)
    names = ("until", "closed_at", "closed_by", "note", "balances")
    return [{name: getattr(period, name) for name in names} for period in listed]


@router.post("/periods", status_code=201)
@exposed("nothing")
async def close_period(engine: EngineHere, who: Operator, requested: CloseIn) -> dict[str, Any]:
    """Close the books before a time: the balances are frozen. A repeat returns the period as it was closed."""
    async with acting(engine, who.organization) as tx:
        try:
            period = await ledger.close_period(tx, requested.until, note=requested.note, actor=who.actor)
        except ledger.NotPossible as error:
            raise Invalid(str(error)) from error
    return {"until": period.until, "closed_at": period.closed_at, "accounts": len(period.balances)}


@router.get("/entries.{format}")
async def entries(
    engine: EngineHere,
    who: Viewer,
    format: Annotated[Literal["csv", "journal"], Path()],
    since: Time,
    until: Time,
) -> Response:
    """Return the posted entries of a period as `csv`, or as `journal`: the plain text of Ledger and hledger."""
    lines = ledger.export_apart(partial(acting, engine, who.organization), since, until, format=format)
    name = f"entries-{since:%Y%m%d}-{until:%Y%m%d}.{format}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "private, no-store"}
    return StreamingResponse(lines, media_type=MEDIA[format], headers=headers)


@router.get("/settlements")
async def settlements(engine: EngineHere, who: Viewer) -> list[dict[str, Any]]:
    """List what the platform settled with the organization, newest first."""
    async with acting(engine, who.organization) as tx:
        return [dict(row) for row in await accounting.settlements(tx)]
