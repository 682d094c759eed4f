"""`ticketing`: set up and look after the events of the bundled ticket shop."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from onceward.cli.exits import CommandFailed, Exit
from onceward.cli.rendering import JsonOption, document, listing, say
from onceward.cli.session import opened_database, run

if TYPE_CHECKING:
    from onceward.tx import Tx

ACTOR = "operator:cli"

group = typer.Typer(no_args_is_help=True, help="The bundled ticket shop: events, seats, orders and refunds.")

OrganizationOption = Annotated[str, typer.Option("--organization", "-o", help="Slug or id of the organization.")]
RefundArgument = Annotated[UUID, typer.Argument(metavar="REFUND", help="Id of the refund.")]
EventArgument = Annotated[UUID, typer.Argument(metavar="EVENT", help="Id of the event.")]


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="ticketing")


@asynccontextmanager
async def acting(organization: str) -> AsyncGenerator[Tx]:
    """A transaction of an organization, by slug or id."""
    from onceward.engine import Engine
    from onceward.trust import find_organization
    from onceward_apps.ticketing import app
    from onceward_apps.ticketing.errors import TicketingError

    async with opened_database() as db:
        async with db.acquire() as conn:
            found = await find_organization(conn, organization)
        engine = Engine(db, app.registry, event_types=app.event_types)
        try:
            async with engine.transaction(organization=found.organization_id) as tx:
                yield tx
        except TicketingError as error:
            raise CommandFailed(str(error)) from error


@group.command("venue")
def add_venue(
    name: str,
    organization: OrganizationOption,
    address: Annotated[str, typer.Option("--address")] = "",
    timezone: Annotated[str, typer.Option("--timezone", help="Like Africa/Johannesburg.")] = "UTC",
) -> None:
    """Add a venue."""
    from onceward_apps.ticketing import organizing

    async def work() -> Any:
        async with acting(organization) as tx:
            return await organizing.add_venue(tx, name, address=address, timezone=timezone, actor=ACTOR)

    say(f"venue {name} has the id {run(work())['id']}")


@group.command("event")
def add_event(
    name: str,
    organization: OrganizationOption,
    venue: Annotated[UUID, typer.Option("--venue", help="Id of the venue.")],
    starts: Annotated[str, typer.Option("--starts", help="ISO time with zone: 2031-06-21T18:00:00+02:00.")],
    currency: Annotated[str, typer.Option("--currency", help="Three letters.")],
    seats: Annotated[
        list[str] | None,
        typer.Option("--seats", help="NAME:PRICE_CENTS:ROWSxSEATS, as in Stalls:45000:4x14; may be given again."),
    ] = None,
    places: Annotated[
        list[str] | None, typer.Option("--places", help="NAME:PRICE_CENTS:NUMBER, as in Lawn:15000:200.")
    ] = None,
    hours: Annotated[float, typer.Option("--hours", help="How long it lasts.")] = 3.0,
    tax_bps: Annotated[int, typer.Option("--tax-bps", help="Tax in basis points; 1500 is 15 %.")] = 0,
    tax_included: Annotated[bool, typer.Option("--tax-included", help="Prices hold the tax already.")] = False,
    fee_bps: Annotated[int, typer.Option("--fee-bps", help="Platform fee in basis points.")] = 250,
    fee_by_organizer: Annotated[bool, typer.Option("--fee-by-organizer", help="Buyers do not pay the fee.")] = False,
) -> None:
    """Add an event with its seat map and its ledger accounts, and put it on sale."""
    from onceward_apps.ticketing import organizing
    from onceward_apps.ticketing.model import Policy

    begins = datetime.fromisoformat(starts)
    sections = [_seated(text) for text in seats or ()] + [_general(text) for text in places or ()]
    new = organizing.NewEvent(
        venue_id=venue,
        name=name,
        starts_at=begins,
        ends_at=begins + timedelta(hours=hours),
        currency=currency.upper(),
        sections=sections,
        policy=Policy(
            fee_bps=fee_bps,
            fee_paid_by="organizer" if fee_by_organizer else "buyer",
            tax_bps=tax_bps,
            tax_included=tax_included,
        ),
    )

    async def work() -> Any:
        async with acting(organization) as tx:
            event = await organizing.add_event(tx, new, actor=ACTOR)
            return await organizing.set_status(tx, event["id"], "on_sale", actor=ACTOR)

    made = run(work())
    say(f"event {name} is on sale: /events/{made['id']}")


@group.command("events")
def events(organization: OrganizationOption, as_json: JsonOption = False) -> None:
    """List the events of an organization."""
    from onceward_apps.ticketing.store import setup

    async def work() -> list[dict[str, Any]]:
        async with acting(organization) as tx:
            return [dict(row) for row in await setup.events(tx)]

    listing(run(work()), columns=("id", "name", "starts_at", "status", "capacity", "currency"), as_json=as_json)


@group.command("orders")
def orders(event: EventArgument, organization: OrganizationOption, as_json: JsonOption = False) -> None:
    """List the newest orders of an event."""
    from onceward_apps.ticketing.store import reading

    async def work() -> list[dict[str, Any]]:
        async with acting(organization) as tx:
            return [dict(row) for row in await reading.checkouts(tx, event, None, 200)]

    columns = ("id", "status", "seats", "total_cents", "refunded_cents", "currency", "provider", "started_at")
    listing(run(work()), columns=columns, as_json=as_json)


@group.command("occupancy")
def occupancy(event: EventArgument, organization: OrganizationOption) -> None:
    """How full an event is, as JSON."""
    from onceward_apps.ticketing.store import sales

    async def work() -> dict[str, float]:
        async with acting(organization) as tx:
            return (await sales.occupancy(tx, event)).shown()

    document(run(work()))


@group.command("refund")
def refund(
    order: Annotated[UUID, typer.Argument(metavar="ORDER", help="Id of the order.")],
    organization: OrganizationOption,
    reason: Annotated[str, typer.Option("--reason", help="Kept in the audit log.")],
    ticket: Annotated[list[UUID] | None, typer.Option("--ticket", help="Only this ticket; may be given again.")] = None,
) -> None:
    """Refund an order or single tickets; a worker gives the money back."""
    from onceward_apps.ticketing import refunding

    async def work() -> UUID | None:
        async with acting(organization) as tx:
            return await refunding.refund(tx, order, tickets=ticket, reason=reason, actor=ACTOR)

    made = run(work())
    say("nothing was paid; the tickets are void" if made is None else f"refund {made} is on its way")


@group.command("refunds")
def refunds(
    organization: OrganizationOption,
    status: Annotated[str | None, typer.Option("--status", help="pending, done or failed.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the newest refunds of an organization; those that failed wait for an operator."""
    from onceward_apps.ticketing.store import refunds as store

    async def work() -> list[dict[str, Any]]:
        async with acting(organization) as tx:
            return [dict(row) for row in await store.listed(tx, status, 200)]

    columns = ("id", "status", "amount_cents", "currency", "provider", "provider_status", "failure", "requested_at")
    listing(run(work()), columns=columns, as_json=as_json)


@group.command("repeat-refund")
def repeat_refund(refund: RefundArgument, organization: OrganizationOption) -> None:
    """Ask the payment service once more for a refund that failed."""
    from onceward_apps.ticketing import refunding

    async def work() -> int:
        async with acting(organization) as tx:
            return await refunding.repeat(tx, refund, actor=ACTOR)

    say(f"attempt {run(work())} at refund {refund} is on its way")


@group.command("settle-refund")
def settle_refund(
    refund: RefundArgument,
    organization: OrganizationOption,
    note: Annotated[str, typer.Option("--note", help="How it was paid, such as the reference of a bank transfer.")],
) -> None:
    """Book a refund that failed as paid another way."""
    from onceward_apps.ticketing import refunding

    async def work() -> None:
        async with acting(organization) as tx:
            await refunding.settle(tx, refund, note=note, actor=ACTOR)

    run(work())
    say(f"refund {refund} is booked as paid another way")


@group.command("cancel-event")
def cancel_event(
    event: EventArgument,
    organization: OrganizationOption,
    reason: Annotated[str, typer.Option("--reason", help="Stands in the mails to the buyers.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Cancel an event: nothing is sold any more, every ticket is void, every order is refunded, buyers get a mail."""
    from onceward_apps.ticketing import cancelling

    if not yes:
        typer.confirm(f"Cancel event {event} and refund all of its orders?", abort=True)

    async def work() -> Any:
        async with acting(organization) as tx:
            return await cancelling.cancel(tx, event, reason=reason, actor=ACTOR)

    made = run(work())
    say(f"event {made['name']} is cancelled; {made['orders_left']} orders to refund by workflow {made['workflow_id']}")


@group.command("cancellation")
def cancellation(event: EventArgument, organization: OrganizationOption) -> None:
    """How far the refunds of a cancelled event are, as JSON."""
    from onceward_apps.ticketing import cancelling

    async def work() -> dict[str, Any]:
        async with acting(organization) as tx:
            return dict(await cancelling.progress(tx, event))

    document(run(work()))


def _seated(text: str) -> Any:
    from onceward_apps.ticketing.organizing import Section

    try:
        name, price, shape = text.rsplit(":", 2)
        rows, seats = (int(part) for part in shape.lower().split("x"))
        return Section(name=name, price_cents=int(price), rows={_letters(n): seats for n in range(rows)})
    except ValueError:
        raise CommandFailed(f"--seats {text!r}: write NAME:PRICE_CENTS:ROWSxSEATS", Exit.USAGE) from None


def _general(text: str) -> Any:
    from onceward_apps.ticketing.organizing import Section

    try:
        name, price, number = text.rsplit(":", 2)
        return Section(name=name, price_cents=int(price), places=int(number))
    except ValueError:
        raise CommandFailed(f"--places {text!r}: write NAME:PRICE_CENTS:NUMBER", Exit.USAGE) from None


def _letters(n: int) -> str:
    """A, B, .. Z, AA, AB, .."""
    return (_letters(n // 26 - 1) if n >= 26 else "") + chr(ord("A") + n % 26)
