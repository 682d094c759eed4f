"""`deliveries`: what was sent to endpoints, what they answered, and sending it again."""

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
    help="Deliveries of webhooks: `ls`, `show`, `tail`, `resend`, `replay`, `resends`, `cancel`.",
)


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="deliveries")


@group.command("ls")
def ls(
    organization: Organization = None,
    endpoint: Annotated[UUID | None, typer.Option("--endpoint", help="Only to this one.")] = None,
    status: Annotated[str | None, typer.Option("--status", help="pending, success, failed, dead_letter.")] = None,
    type: Annotated[str | None, typer.Option("--type", help="Only of this event type.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="At most so many.")] = 50,
    as_json: JsonOption = False,
) -> None:
    """List deliveries, newest first."""

    async def work() -> list[dict[str, Any]]:
        from onceward.outbox import reading

        async with opened_outbox(organization) as (outbox, found):
            rows = await reading.deliveries(
                outbox.db,
                found,
                all_organizations=organization is None,
                endpoint_ids=None if endpoint is None else [endpoint],
                status=status,
                type=type,
                limit=limit,
            )
            return [asdict(row) for row in rows]

    listing(run(work()), columns=COLUMNS, as_json=as_json, empty="no deliveries")


@group.command("show")
def show(id: Annotated[int, typer.Argument(help="Id of the delivery.")]) -> None:
    """Print one delivery with its body and every attempt."""

    async def work() -> dict[str, Any]:
        from onceward.outbox import reading

        async with opened_outbox(None) as (outbox, _):
            row, body, attempts = await reading.delivery(outbox.db, None, id, all_organizations=True)
            return {**asdict(row), "body": body, "attempts_made": [asdict(each) for each in attempts]}

    document(run(work()))


@group.command("tail")
def tail(organization: Organization = None) -> None:
    """Print deliveries as they end, until Ctrl-C."""

    async def work() -> None:
        import asyncio

        from onceward.outbox import reading

        async with opened_outbox(organization) as (outbox, found):
            seen: dict[int, str] = {}
            first = True
            while True:
                rows = await reading.deliveries(outbox.db, found, all_organizations=organization is None, limit=200)
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
    """Send one delivery again, whatever became of it."""

    async def work() -> None:
        from onceward.outbox import resends

        async with opened_outbox(organization) as (outbox, found):
            await resends.resend_one(outbox.db, found, id, actor=ACTOR)

    run(work())
    say("it will be sent again")


@group.command("replay")
def replay(
    since: Annotated[datetime, typer.Option("--since", help="From when on, UTC.")],
    organization: Organization = None,
    until: Annotated[datetime | None, typer.Option("--until", help="Up to when; now if not given.")] = None,
    endpoint: Annotated[UUID | None, typer.Option("--endpoint", help="Only to this one.")] = None,
    types: Annotated[list[str] | None, typer.Option("--type", help="Only of this event type.")] = None,
    statuses: Annotated[list[str] | None, typer.Option("--status", help="Only with this status.")] = None,
    rate: Annotated[float, typer.Option("--rate", help="So many a second.")] = 100.0,
) -> None:
    """Send again what fits, delivered or not. It goes on whatever happens to this command."""

    async def work() -> tuple[int, int]:
        from onceward.outbox import resends

        async with opened_outbox(organization) as (outbox, found):
            started = await resends.start(
                outbox.db,
                found,
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
    say(f"resend {id} has begun with {matched} deliveries: onceward deliveries resends")


@group.command("resends")
def bulk(organization: Organization = None, as_json: JsonOption = False) -> None:
    """List bulk resends and how far they have come."""

    async def work() -> list[dict[str, Any]]:
        from onceward.outbox import resends

        async with opened_outbox(organization) as (outbox, found):
            return [asdict(each) for each in await resends.listed(outbox.db, found)]

    listing(run(work()), columns=RESENDS, as_json=as_json, empty="no resends")


@group.command("cancel")
def cancel(id: Annotated[int, typer.Argument(help="Id of the resend.")], organization: Organization = None) -> None:
    """Stop a bulk resend; what it has already made due is still sent."""

    async def work() -> bool:
        from onceward.outbox import resends

        async with opened_outbox(organization) as (outbox, found):
            return await resends.cancel(outbox.db, found, id, actor=ACTOR)

    say("cancelled" if run(work()) else "it is not running")


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=moment.tzinfo or UTC)
