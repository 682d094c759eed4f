"""`events` lists, shows, replays and forwards received webhooks."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onceward.cli.exits import CommandFailed, Exit
from onceward.cli.rendering import JsonOption, document, listing, say
from onceward.cli.session import opened_database, run, settings_here
from onceward.work.commands.dead_letters import Limit, Since, Until, moment

if TYPE_CHECKING:
    from onceward.db import Database
    from onceward.inbox.catalog import Catalog
    from onceward.inbox.event_search import EventFilter, FoundEvents

COLUMNS = ("seq", "source", "type", "status", "attempts", "event_id", "received_at", "error")
POLL_S = 0.5
LOOK_BACK = 5000

group = typer.Typer(no_args_is_help=True, help="Received webhooks: `ls`, `show`, `tail`, `replay`, `forward`.")

Source = Annotated[str | None, typer.Option("--source", "-s", help="Name or id of the source.")]
Type = Annotated[str | None, typer.Option("--type", "-t", help="Event type, for example charge.succeeded.")]
Status = Annotated[
    list[str] | None, typer.Option("--status", help="pending, processing, success, failed or dead_letter.")
]
Error = Annotated[str | None, typer.Option("--error", help="Part of the error text.")]


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="events")


def _row(event: FoundEvents) -> dict[str, Any]:
    row = asdict(event)
    row["error"] = None if event.error is None else event.error[:80]
    return row


@group.command("ls")
def ls(
    source: Source = None,
    type: Type = None,
    status: Status = None,
    error: Error = None,
    since: Since = None,
    until: Until = None,
    before: Annotated[
        int | None, typer.Option("--before", help="Only events with a smaller number: the next page.")
    ] = None,
    limit: Limit = 50,
    as_json: JsonOption = False,
) -> None:
    """List events, newest first."""
    from onceward.inbox.event_search import EventFilter, search

    criteria = EventFilter(
        source=source, type=type, statuses=status or None, error=error, since=moment(since), until=moment(until)
    )

    async def work() -> list[FoundEvents]:
        async with opened_database() as db:
            return (await search(db, criteria, limit=limit, before=before)).events

    listing([_row(each) for each in run(work())], columns=COLUMNS, as_json=as_json, empty="no events")


@group.command("show")
def show(
    id: Annotated[str, typer.Argument(help="Number, id, or the sender's event id.")],
    raw: Annotated[bool, typer.Option("--raw", help="Print the body as it was sent, and nothing else.")] = False,
) -> None:
    """Show one event with its payload and every attempt, as one JSON document."""
    from onceward.inbox import event_details

    async def work() -> event_details.Whole:
        async with opened_database() as db:
            event = await event_details.show(db, id)
            if event is None:
                raise CommandFailed(f"there is no event {id!r}")
            return event

    event = asdict(run(work()))
    body: bytes | None = event.pop("raw")
    if raw:
        typer.echo(b"" if body is None else body, nl=False)
        return
    document({**event, "raw_bytes": None if body is None else len(body)})


@group.command("replay")
def replay(
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Numbers, or senders' event ids.")] = None,
    source: Source = None,
    type: Type = None,
    error: Error = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 100,
    unhandled: Annotated[bool, typer.Option("--unhandled", help="Events that had no handler on arrival.")] = False,
    as_new: Annotated[bool, typer.Option("--as-new", help="Run a successful event again, as a new event.")] = False,
    reason: Annotated[str, typer.Option("--reason", help="Why, for the audit log. Required with --as-new.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show which events.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Handle dead letters and failed events again, under the same event id."""
    from onceward.inbox import replay as events
    from onceward.inbox.event_search import EventFilter
    from onceward.trust import COMMAND_LINE

    numbers = [int(each) for each in ids or () if each.isdigit()]
    names = [each for each in ids or () if not each.isdigit()]
    statuses = ["success"] if unhandled or as_new else ["dead_letter", "failed"]
    criteria = EventFilter(
        ids=numbers or None,
        event_ids=names or None,
        source=source,
        type=type,
        statuses=None if ids else statuses,
        error=error,
        since=moment(since),
        until=moment(until),
        unhandled=True if unhandled else None,
    )

    async def work() -> events.Replayed:
        async with opened_database() as db:
            return await events.replay(
                db, criteria, actor=COMMAND_LINE, reason=reason, limit=limit, as_new=as_new, dry_run=dry_run
            )

    try:
        done = run(work())
    except ValueError as problem:
        raise CommandFailed(str(problem), Exit.USAGE) from None
    if as_json:
        document({"done": done.done, "skipped": {str(id): why for id, why in done.skipped.items()}, "dry_run": dry_run})
        return
    say(f"{'would replay' if dry_run else 'replayed'}: {len(done.done)}")
    for id, why in done.skipped.items():
        say(f"  {id}: {why}")


@group.command("tail")
def tail(source: Source = None, type: Type = None, as_json: JsonOption = False) -> None:
    """Print events as they arrive, until Ctrl-C."""
    from onceward.inbox.event_search import EventFilter

    async def work() -> None:
        async with opened_database() as db:
            async for event in _follow(db, EventFilter(source=source, type=type), since=None):
                if as_json:
                    document(_row(event))
                else:
                    say(f"{event.received_at:%H:%M:%S} {event.seq} {event.source} {event.type} {event.event_id}")

    run(work())


@group.command("forward")
def forward(
    to: Annotated[str, typer.Option("--to", help="URL to post to, for example http://localhost:3000/hooks.")],
    source: Source = None,
    type: Type = None,
    since: Since = None,
    once: Annotated[bool, typer.Option("--once", help="Stop when no more events are left.")] = False,
) -> None:
    """Post the exact bytes of events to another address as they arrive, with a new signature of the source's secret."""

    async def work() -> None:
        async with opened_database() as db:
            await _forward(db, to, source=source, type=type, since=since, once=once)

    run(work())


async def _forward(
    db: Database, to: str, *, source: str | None, type: str | None, since: str | None, once: bool
) -> None:
    from urllib.parse import urlsplit

    from onceward.http import HttpError, ServiceClient
    from onceward.inbox.event_search import EventFilter
    from onceward.inbox.signed_samples import sign

    catalog = await read_catalog(db)
    criteria = EventFilter(source=source, type=type)
    async with ServiceClient(timeout_s=30) as client:
        async for event in _follow(db, criteria, since=since, once=once):
            body: bytes | None = await db.fetchval("select raw from onceward.webhook_events where seq = $1", event.seq)
            known = catalog.get(event.source)
            if body is None or known is None:
                say(
                    f"{event.seq} {event.type}: not forwarded, its "
                    f"{'body is not stored' if body is None else 'source is unknown'}"
                )
                continue
            signed = sign(known.config, body, type=event.type, path=urlsplit(to).path, event_id=event.event_id)
            try:
                answer = await client.request("POST", to, headers=dict(signed.headers), body=signed.body)
                say(f"{event.seq} {event.type}: {answer.status} in {answer.elapsed_ms} ms")
            except HttpError as problem:
                say(f"{event.seq} {event.type}: {problem}")


async def read_catalog(db: Database) -> Catalog:
    """Return the sources of this installation, with the secrets to sign requests."""
    import os

    from onceward.inbox import environment
    from onceward.inbox.catalog import Catalog
    from onceward.trust.secrets import secret_box

    settings = settings_here()
    declared = environment.read(os.environ, public_url=settings.public_url)
    catalog = Catalog(db, secret_box(settings), declared=declared)
    await catalog.declare()
    await catalog.refresh()
    return catalog


async def _follow(
    db: Database, criteria: EventFilter, *, since: str | None, once: bool = False
) -> AsyncGenerator[FoundEvents]:
    """Yield events in the order of their numbers, starting now or at a given time."""
    import asyncio

    from onceward.inbox.event_search import OPEN_FOR, search

    floor: int = await db.fetchval("select coalesce(max(seq), 0) from onceward.webhook_events")
    begin = moment(since)
    if begin is not None:
        floor = min(floor, await db.fetchval("select onceward.event_at($1)", begin - OPEN_FOR) - 1)
        criteria = replace(criteria, since=begin)
    seen: set[int] = set()
    while True:
        fresh: list[FoundEvents] = []
        before: int | None = None
        while True:
            page = await search(db, criteria, limit=1000, before=before, after=floor)
            fresh += [each for each in page.events if each.seq not in seen]
            before = page.next
            if before is None:
                break
        for each in reversed(fresh):
            seen.add(each.seq)
            yield each
        # Numbers are assigned before the commit, so a smaller one may still appear. Each poll looks back.
        floor = max(floor, max(seen, default=0) - LOOK_BACK)
        seen = {seq for seq in seen if seq > floor}
        if once and not fresh:
            return
        await asyncio.sleep(POLL_S)
