"""`onceward ticketing taxes|settle|settlements|pay-settlement`: what accountants and the platform do."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from onceward.cli import (
    ACTOR,
    CommandFailed,
    Exit,
    JsonOption,
    OrganizationOption,
    engine_for,
    listing,
    run,
    say,
    transaction_for,
)

APP = "onceward_apps.ticketing:app"
REFUSALS = "onceward_apps.ticketing.errors:TicketingError"
Currency = Annotated[str, typer.Option("--currency", "-c", help="Currency code of three capital letters.")]
Until = Annotated[str, typer.Option("--until", help="The day (2031-02-01) or time before which it ends.")]


def add_to(group: typer.Typer) -> None:
    group.command("taxes")(taxes)
    group.command("settle")(settle)
    group.command("settlements")(settlements)
    group.command("pay-settlement")(pay_settlement)


def taxes(
    organization: OrganizationOption,
    since: Annotated[str, typer.Option("--since", help="The first day (2031-01-01) or time.")],
    until: Until,
    as_json: JsonOption = False,
) -> None:
    """Show net and tax by rate, of the invoices and credit notes that were issued in a period."""
    from onceward_apps.ticketing.store import books as accounting

    begins, ends = _time(since, "--since"), _time(until, "--until")

    async def work() -> list[dict[str, Any]]:
        async with transaction_for(APP, organization, refusals=REFUSALS) as tx:
            return [dict(row) for row in await accounting.taxes(tx, begins, ends)]

    columns = ("currency", "jurisdiction", "tax_bps", "net_cents", "tax_cents", "documents")
    listing(run(work()), columns=columns, as_json=as_json, empty="no invoices")


def settle(organization: OrganizationOption, currency: Currency, until: Until) -> None:
    """Settle with an organizer whose buyers pay on the platform's accounts: freeze the statement up to a time."""
    from onceward_apps.ticketing import settlements as settling

    ends = _time(until, "--until")

    async def work() -> Any:
        async with engine_for(APP, organization, refusals=REFUSALS) as (engine, owner):
            return await settling.settle(engine, owner, currency=currency.upper(), until=ends, actor=ACTOR)

    row = run(work())
    say(f"settlement {row['number']}: pay out {row['payout_cents']} {row['currency']} (minor units)")


def settlements(organization: OrganizationOption, as_json: JsonOption = False) -> None:
    """List the settlements with an organizer."""
    from onceward_apps.ticketing.store import books as accounting

    async def work() -> list[dict[str, Any]]:
        async with transaction_for(APP, organization, refusals=REFUSALS) as tx:
            return [dict(row) for row in await accounting.settlements(tx)]

    columns = ("number", "currency", "since", "until", "payout_cents", "paid_at", "paid_reference")
    listing(run(work()), columns=columns, as_json=as_json, empty="no settlements")


def pay_settlement(
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="Number of the settlement.", min=1)],
    organization: OrganizationOption,
    currency: Currency,
    reference: Annotated[str, typer.Option("--reference", help="Reference of the bank transfer to the organizer.")],
) -> None:
    """Record that the payout of a settlement was made. A repeat changes nothing."""
    from onceward_apps.ticketing import settlements as settling

    async def work() -> Any:
        async with engine_for(APP, organization, refusals=REFUSALS) as (engine, owner):
            return await settling.pay_out(
                engine, owner, currency=currency.upper(), number=number, reference=reference, actor=ACTOR
            )

    say(f"settlement {run(work())['number']} is paid")


def _time(text: str, option: str) -> datetime:
    """Read a day (its beginning in UTC) or a time with an offset."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise CommandFailed(f"{option} {text!r}: use 2031-01-31 or 2031-01-31T00:00:00+02:00", Exit.USAGE) from None
    if len(text) > 10 and at.utcoffset() is None:
        raise CommandFailed(f"{option} {text!r} has no offset from UTC: add +02:00, or Z for UTC", Exit.USAGE)
    return at if at.utcoffset() is not None else at.replace(tzinfo=UTC)
