"""`onceward ticketing`: set up and manage the events of the ticket shop."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Any
from uuid import UUID

import typer

from onceward.cli import (
    ACTOR,
    CommandFailed,
    Exit,
    JsonOption,
    OrganizationOption,
    document,
    engine_for,
    listing,
    run,
    say,
    transaction_for,
)

group = typer.Typer(no_args_is_help=True, help="The ticket shop: events, seats, orders and refunds.")
APP = "onceward_apps.ticketing:app"
REFUSALS = "onceward_apps.ticketing.errors:TicketingError"
acting = partial(transaction_for, APP, refusals=REFUSALS)
"""Open a transaction for an organization, given by slug or id."""

RefundArgument = Annotated[UUID, typer.Argument(metavar="REFUND", help="Id of the refund.")]
EventArgument = Annotated[UUID, typer.Argument(metavar="EVENT", help="Id of the event.")]


def register(cli: typer.Typer) -> None:
    from onceward_apps.ticketing import accounting_commands, door_commands, office_commands

    door_commands.add_to(group)
    office_commands.add_to(group)
    accounting_commands.add_to(group)
    cli.add_typer(group, name="ticketing")


@group.command("venue")
def add_venue(
    name: str,
    organization: OrganizationOption,
    address: Annotated[str, typer.Option("--address")] = "",
    timezone: Annotated[str, typer.Option("--timezone", help="For example Africa/Johannesburg.")] = "UTC",
) -> None:
    """Add a venue."""
    from onceward_apps.ticketing import event_setup

    async def work() -> Any:
        async with acting(organization) as tx:
            return await event_setup.add_venue(tx, name, address=address, timezone=timezone, actor=ACTOR)

    say(f"venue {name} has the id {run(work())['id']}")


@group.command("event")
def add_event(
    name: str,
    organization: OrganizationOption,
    venue: Annotated[UUID, typer.Option("--venue", help="Id of the venue.")],
    starts: Annotated[str, typer.Option("--starts", help="ISO time with offset: 2031-06-21T18:00:00+02:00.")],
    currency: Annotated[str, typer.Option("--currency", help="Three-letter ISO 4217 code.")],
    seats: Annotated[
        list[str] | None,
        typer.Option("--seats", help="NAME:PRICE_CENTS:ROWSxSEATS, for example Stalls:45000:4x14; repeatable."),
    ] = None,
    places: Annotated[
        list[str] | None,
        typer.Option("--places", help="NAME:PRICE_CENTS:NUMBER, for example Lawn:15000:200; repeatable."),
    ] = None,
    hours: Annotated[float, typer.Option("--hours", help="Duration in hours.")] = 3.0,
    tax_bps: Annotated[int, typer.Option("--tax-bps", help="Tax in basis points; 1500 is 15 %.")] = 0,
    tax_included: Annotated[bool, typer.Option("--tax-included", help="Prices include the tax.")] = False,
    fee_by_organizer: Annotated[
        bool, typer.Option("--fee-by-organizer", help="The organizer pays the fee, not the buyers.")
    ] = False,
) -> None:
    """Add an event with its seat map and its ledger accounts, and put it on sale."""
    from onceward_apps.ticketing import event_setup
    from onceward_apps.ticketing.model import Policy

    try:
        begins = datetime.fromisoformat(starts)
    except ValueError:
        raise CommandFailed(f"--starts {starts!r}: use the form 2031-06-21T18:00:00+02:00", Exit.USAGE) from None
    sections = [_seated(text) for text in seats or ()] + [_general(text) for text in places or ()]

    async def work() -> Any:
        async with acting(organization) as tx:
            new = event_setup.NewEvent(
                venue_id=venue,
                name=name,
                starts_at=begins,
                ends_at=begins + timedelta(hours=hours),
                currency=currency.upper(),
                sections=sections,
                policy=Policy(
                    fee_bps=await event_setup.platform_fee(tx),
                    fee_paid_by="organizer" if fee_by_organizer else "buyer",
                    tax_bps=tax_bps,
                    tax_included=tax_included,
                ),
            )
            event = await event_setup.add_event(tx, new, actor=ACTOR)
            return await event_setup.set_status(tx, event["id"], "on_sale", actor=ACTOR)

    event = run(work())
    say(f"event {name} is on sale: /events/{event['id']}")


@group.command("fee")
def set_fee(
    bps: Annotated[int, typer.Argument(metavar="BPS", help="Fee in basis points; 250 is 2.5 %.", min=0, max=10_000)],
    organization: OrganizationOption,
) -> None:
    """Set the platform's fee for new events of an organization. Events that exist keep theirs."""
    from onceward_apps.ticketing.store import setup

    async def work() -> None:
        async with engine_for(APP, organization, refusals=REFUSALS) as (engine, owner):
            async with engine.transaction(organization=owner) as tx:
                changes = {"fee_bps": bps}
                await tx.audit("fee_set", entity_type="organization", entity_id=owner, changes=changes, actor=ACTOR)
            async with engine.db.transaction(role="engine") as tx:  # the app itself may not change its fee
                await setup.set_fee(tx, owner, bps)

    run(work())
    say(f"the fee of new events is {bps} basis points")


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
    from onceward_apps.ticketing.store import views

    async def work() -> list[dict[str, Any]]:
        async with acting(organization) as tx:
            return [dict(row) for row in await views.checkouts(tx, event, None, 200)]

    columns = ("id", "status", "seats", "total_cents", "refunded_cents", "currency", "provider", "started_at")
    listing(run(work()), columns=columns, as_json=as_json)


@group.command("occupancy")
def occupancy(event: EventArgument, organization: OrganizationOption) -> None:
    """Show the occupancy of an event as JSON."""
    from onceward_apps.ticketing.store import sales

    async def work() -> dict[str, float]:
        async with acting(organization) as tx:
            return (await sales.occupancy(tx, event)).shown()

    document(run(work()))


@group.command("refund")
def refund(
    order: Annotated[UUID, typer.Argument(metavar="ORDER", help="Id of the order.")],
    organization: OrganizationOption,
    reason: Annotated[str, typer.Option("--reason", help="Reason for the refund, written to the audit log.")],
    ticket: Annotated[list[UUID] | None, typer.Option("--ticket", help="Refund only this ticket; repeatable.")] = None,
) -> None:
    """Refund an order or single tickets; a worker sends the money back."""
    from onceward_apps.ticketing import after_sale

    async def work() -> UUID | None:
        async with acting(organization) as tx:
            made = await after_sale.refund(tx, order, tickets=ticket, reason=reason, actor=ACTOR)
            return None if made is None else made.id

    refund_id = run(work())
    say("nothing was paid; the tickets are void" if refund_id is None else f"refund {refund_id} is requested")


@group.command("refunds")
def refunds(
    organization: OrganizationOption,
    status: Annotated[str | None, typer.Option("--status", help="pending, done or failed.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the newest refunds of an organization. Failed refunds wait for an operator."""
    from onceward_apps.ticketing.store import refunds as store

    async def work() -> list[dict[str, Any]]:
        async with acting(organization) as tx:
            return [dict(row) for row in await store.listed(tx, status, 200)]

    columns = ("id", "status", "amount_cents", "currency", "provider", "provider_status", "failure", "requested_at")
    listing(run(work()), columns=columns, as_json=as_json)


@group.command("repeat-refund")
def repeat_refund(refund: RefundArgument, organization: OrganizationOption) -> None:
    """Request a refund from the payment service again that failed or whose call has stopped."""
    from onceward_apps.ticketing import after_sale

    async def work() -> int:
        async with acting(organization) as tx:
            return await after_sale.repeat(tx, refund, actor=ACTOR)

    say(f"attempt {run(work())} at refund {refund} is requested")


@group.command("settle-refund")
def settle_refund(
    refund: RefundArgument,
    organization: OrganizationOption,
    note: Annotated[
        str, typer.Option("--note", help="How the refund was paid, for example the reference of a bank transfer.")
    ],
) -> None:
    """Book a refund that the buyer does not have as paid another way."""
    from onceward_apps.ticketing import after_sale

    async def work() -> None:
        async with acting(organization) as tx:
            await after_sale.settle(tx, refund, note=note, actor=ACTOR)

    run(work())
    say(f"refund {refund} is booked as paid another way")


@group.command("cancel-event")
def cancel_event(
    event: EventArgument,
    organization: OrganizationOption,
    reason: Annotated[
        str, typer.Option("--reason", help="Reason for the cancellation, written in the emails to the buyers.")
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Cancel an event: stop sales, void every ticket, refund every order and email the buyers."""
    from onceward_apps.ticketing import cancellations

    if not yes:
        typer.confirm(f"Cancel event {event} and refund all of its orders?", abort=True)

    async def work() -> Any:
        async with acting(organization) as tx:
            return await cancellations.cancel(tx, event, reason=reason, actor=ACTOR)

    event_row = run(work())
    left, workflow = event_row["orders_left"], event_row["workflow_id"]
    say(f"event {event_row['name']} is cancelled; workflow {workflow} refunds its {left} orders")


@group.command("cancellation")
def cancellation(event: EventArgument, organization: OrganizationOption) -> None:
    """Show the progress of a cancelled event's refunds as JSON."""
    from onceward_apps.ticketing import cancellations

    async def work() -> dict[str, Any]:
        async with acting(organization) as tx:
            return dict(await cancellations.progress(tx, event))

    document(run(work()))


def _seated(text: str) -> Any:
    from onceward_apps.ticketing.event_setup import Section

    try:
        name, price, shape = text.rsplit(":", 2)
        rows, seats = (int(part) for part in shape.lower().split("x"))
        return Section(name=name, price_cents=int(price), rows={_letters(n): seats for n in range(rows)})
    except ValueError:
        raise CommandFailed(f"--seats {text!r}: use the form NAME:PRICE_CENTS:ROWSxSEATS", Exit.USAGE) from None


def _general(text: str) -> Any:
    from onceward_apps.ticketing.event_setup import Section

    try:
        name, price, number = text.rsplit(":", 2)
        return Section(name=name, price_cents=int(price), places=int(number))
    except ValueError:
        raise CommandFailed(f"--places {text!r}: use the form NAME:PRICE_CENTS:NUMBER", Exit.USAGE) from None


def _letters(n: int) -> str:
    """Return the name of row `n`: A, B, ... Z, AA, AB, ..."""
    return (_letters(n // 26 - 1) if n >= 26 else "") + chr(ord("A") + n % 26)


@group.command("rotate-key")
def rotate_key(organization: OrganizationOption) -> None:
    """Sign tickets and order links with a new key. Those that were signed before stay valid, for the last ten keys."""
    from onceward_apps.ticketing.store import keys

    async def work() -> int:
        async with acting(organization) as tx:
            return await keys.rotate_signing_key(tx, actor=ACTOR)

    say(f"a new key signs tickets and order links now; {run(work())} keys are valid")
