"""`onceward ticketing sell|record-transfers|invoice|tickets-pdf`: the box office and the papers of an order."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import typer

from onceward.cli import ACTOR, CommandFailed, Exit, JsonOption, OrganizationOption, listing, run, say, transaction_for

APP = "onceward_apps.ticketing:app"
REFUSALS = "onceward_apps.ticketing.errors:TicketingError"
OrderArgument = Annotated[UUID, typer.Argument(metavar="ORDER", help="Id of the order.")]
FileOption = Annotated[Path, typer.Option("--file", help="The file to write.", dir_okay=False)]


def add_to(group: typer.Typer) -> None:
    group.command("sell")(sell)
    group.command("record-transfers")(record_transfers)
    group.command("invoice")(invoice)
    group.command("tickets-pdf")(tickets_pdf)


def sell(
    event: Annotated[UUID, typer.Argument(metavar="EVENT", help="Id of the event.")],
    organization: OrganizationOption,
    how: Annotated[
        Literal["cash", "transfer", "complimentary"], typer.Option("--how", help="How the buyer pays.")
    ] = "cash",
    seat: Annotated[list[str] | None, typer.Option("--seat", help="Label of a seat: 'Stalls A7'; repeatable.")] = None,
    places: Annotated[
        list[str] | None, typer.Option("--places", help="SECTION:NUMBER, for example Lawn:2; repeatable.")
    ] = None,
    name: Annotated[str, typer.Option("--name", help="Name of the buyer.")] = "",
    email: Annotated[str, typer.Option("--email", help="Address for the tickets; without it nothing is mailed.")] = "",
    reason: Annotated[str, typer.Option("--reason", help="Why complimentary tickets cost nothing.")] = "",
) -> None:
    """Sell at the box office: for cash, for a bank transfer, or free of charge."""
    from onceward_apps.ticketing import box_office
    from onceward_apps.ticketing.store import setup

    async def work() -> Any:
        async with transaction_for(APP, organization, refusals=REFUSALS) as tx:
            sections = {row["name"]: row["id"] for row in await setup.sections(tx, event)}
            sale = box_office.Sale(
                how=how, seats=seat or (), places=_places(places or (), sections), name=name, email=email
            )
            return await box_office.sell(tx, event, sale, reason=reason, actor=ACTOR)

    order = run(work())
    wait = f"; the transfer must name {order['transfer_reference']}" if order["transfer_reference"] else ""
    say(f"order {order['id']} is {order['status']}: {order['total_cents']} {order['currency']}{wait}")


def _places(given: Any, sections: dict[str, UUID]) -> dict[UUID, int]:
    wanted: dict[UUID, int] = {}
    for text in given:
        section, _, number = text.rpartition(":")
        if section not in sections or not number.isdigit():
            names = ", ".join(sections)
            raise CommandFailed(
                f"--places {text!r}: use SECTION:NUMBER with a section of the event: {names}", Exit.USAGE
            )
        wanted[sections[section]] = int(number)
    return wanted


def record_transfers(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="CSV with id, amount, currency and text.", exists=True, dir_okay=False),
    ],
    organization: OrganizationOption,
    as_json: JsonOption = False,
) -> None:
    """Record the lines of a bank statement: those that name an order pay it. A repeat changes nothing."""
    from onceward_apps.ticketing import box_office
    from onceward_apps.ticketing.bank_statement import read_lines

    async def work() -> list[dict[str, Any]]:
        async with transaction_for(APP, organization, refusals=REFUSALS) as tx:
            lines = read_lines(file.read_text(encoding="utf-8-sig"))
            return [dict(row) for row in (await box_office.match(tx, lines, actor=ACTOR)).rows]

    listing(run(work()), columns=("line", "amount_cents", "currency", "outcome", "checkout_id"), as_json=as_json)


def invoice(
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="Number of the invoice or credit note.", min=1)],
    organization: OrganizationOption,
    file: FileOption,
) -> None:
    """Write an invoice or a credit note as PDF."""
    from onceward_apps.ticketing import invoice_pdf
    from onceward_apps.ticketing.errors import NotFound
    from onceward_apps.ticketing.store import invoices

    async def work() -> bytes:
        async with transaction_for(APP, organization, refusals=REFUSALS) as tx:
            row = await invoices.one(tx, number)
            if row is None:
                raise NotFound(f"there is no invoice {number}")
            return invoice_pdf.invoice(row)

    file.write_bytes(run(work()))
    say(f"{file} has invoice {number}")


def tickets_pdf(order: OrderArgument, organization: OrganizationOption, file: FileOption) -> None:
    """Write the valid tickets of an order as PDF, one on each page."""
    from onceward_apps.ticketing import invoice_pdf
    from onceward_apps.ticketing.errors import NotFound
    from onceward_apps.ticketing.store import keys, views

    async def work() -> bytes:
        async with transaction_for(APP, organization, refusals=REFUSALS) as tx:
            listed = await views.tickets(tx, order)
            rows = [await views.ticket(tx, row["id"]) for row in listed if row["status"] in ("active", "scanned")]
            if not rows:
                raise NotFound(f"order {order} has no valid tickets")
            return invoice_pdf.tickets(await keys.signing_key(tx), rows)

    file.write_bytes(run(work()))
    say(f"{file} has the tickets of the order")
