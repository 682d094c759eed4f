"""`deliveries`: list deliveries and their attempts, and send them again."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

import typer

from onceward.cli.rendering import JsonOption, document, listing, say
from onceward.cli.session import run
from onceward.outbox.commands.endpoints import ACTOR, Organization, opened_outbox

COLUMNS = ("id", "type", "status", "attempts", "response_status", "error", "endpoint_id", "created_at")
RESENDS = ("id", "verb", "state", "matched", "resent", "skipped", "endpoint_id", "created_at")

group = typer.Typer(
    no_args_is_help=True,
    help="Deliveries of outbound webhooks: `ls`, `show`, `tail`, `resend`, `replay`, `resends`, `cancel`.",
)


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="deliveries")


@group.command("ls")
def ls(
    organization: Organization = None,
    endpoint: Annotated[UUID | None, typer.Option("--endpoint", help="Only to this endpoint.")] = None,
    status: Annotated[
        str | None,
        typer.Option("--status", help="Only with this status: pending, success, failed, dead_letter or cancelled."),
    ] = None,
    type: Annotated[str | None, typer.Option("--type", help="Only of this event type.")] = None,
    before: Annotated[
        int | None, typer.Option("--before", help="Only deliveries with a smaller id: the next page.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Maximum number of rows.")] = 50,
    as_json: JsonOption = False,
) -> None:
    """List deliveries, newest first."""

    async def work() -> list[dict[str, Any]]:
        from onceward.outbox import delivery_history

        async with opened_outbox(organization) as (outbox, organization_id):
            found = await delivery_history.deliveries(
                outbox.db,
                organization_id,
                all_organizations=organization is None,
                endpoint_ids=None if endpoint is None else [endpoint],
                status=status,
                type=type,
                before=before,
                limit=limit,
            )
            return [asdict(row) for row in found.rows]

    listing(run(work()), columns=COLUMNS, as_json=as_json, empty="no deliveries")


@group.command("show")
def show(id: Annotated[int, typer.Argument(help="Id of the delivery.")]) -> None:
    """Print one delivery with its body and every attempt."""

    async def work() -> dict[str, Any]:
        from onceward.outbox import delivery_history

        async with opened_outbox(None) as (outbox, _):
            row, body, attempts = await delivery_history.delivery(outbox.db, None, id, all_organizations=True)
            return {**asdict(row), "body": body, "attempts_made": [asdict(each) for each in attempts]}

    document(run(work()))


@group.command("tail")
def tail(organization: Organization = None) -> None:
    """Print deliveries when they end, until Ctrl-C."""

    async def work() -> None:
        import asyncio

        from onceward.outbox import delivery_history

        async with opened_outbox(organization) as (outbox, organization_id):
            seen: dict[int, str] = {}
            first = True
            while True:
                found = await delivery_history.deliveries(
                    outbox.db, organization_id, all_organizations=organization is None, limit=200
                )
                rows = found.rows
                for row in reversed(rows):
                    if row.status not in ("pending", "processing") and seen.get(row.id) != row.status and not first:
                        answer = row.response_status or row.error or ""
                        say(f"{row.id}  {row.type}  {row.status}  {answer}  {row.endpoint_id}")
                seen = {row.id: row.status for row in rows}
                first = False
                await asyncio.sleep(1)

    run(work())


@group.command("resend")
def resend(id: Annotated[int, typer.Argument(help="Id of the delivery.")], organization: Organization = None) -> None:
    """Send one delivery again, whatever its status is."""

    async def work() -> None:
        from onceward.outbox import resends

        async with opened_outbox(organization) as (outbox, organization_id):
            await resends.resend_one(outbox.db, organization_id, id, actor=ACTOR)

    run(work())
    say("the delivery will be sent again")


@group.command("replay")
def replay(
    since: Annotated[datetime, typer.Option("--since", help="Start of the period, in UTC.")],
    organization: Organization = None,
    until: Annotated[datetime | None, typer.Option("--until", help="End of the period, in UTC. Default: now.")] = None,
    endpoint: Annotated[UUID | None, typer.Option("--endpoint", help="Only to this endpoint.")] = None,
    types: Annotated[list[str] | None, typer.Option("--type", help="Only of this event type.")] = None,
    statuses: Annotated[list[str] | None, typer.Option("--status", help="Only with this status.")] = None,
    rate: Annotated[float, typer.Option("--rate", help="Deliveries per second.")] = 100.0,
) -> None:
    """Send all matching deliveries again, delivered or not. The replay continues after this command ends."""

    async def work() -> tuple[int, int]:
        from onceward.outbox import resends

        async with opened_outbox(organization) as (outbox, organization_id):
            started = await resends.start(
                outbox.db,
                organization_id,
                verb="replay",
                since=_utc(since),
                until=None if until is None else _utc(until),
                endpoint_id=endpoint,
                types=types,
                statuses=statuses,
                rate_per_s=rate,
                actor=ACTOR,
            )
            return started.id, started.matched

    id, matched = run(work())
    say(f"resend {id} started with {matched} deliveries; see its progress with: onceward deliveries resends")


@group.command("resends")
def bulk(organization: Organization = None, as_json: JsonOption = False) -> None:
    """List bulk resends and their progress."""

    async def work() -> list[dict[str, Any]]:
        from onceward.outbox import resends

        async with opened_outbox(organization) as (outbox, organization_id):
            return [asdict(each) for each in await resends.listed(outbox.db, organization_id)]

    listing(run(work()), columns=RESENDS, as_json=as_json, empty="no resends")


@group.command("cancel")
def cancel(id: Annotated[int, typer.Argument(help="Id of the resend.")], organization: Organization = None) -> None:
    """Stop a bulk resend. Deliveries that are already due are still sent."""

    async def work() -> bool:
        from onceward.outbox import resends

        async with opened_outbox(organization) as (outbox, organization_id):
            return await resends.cancel(outbox.db, organization_id, id, actor=ACTOR)

    say("cancelled" if run(work()) else "the resend is not running")


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=moment.tzinfo or UTC)
