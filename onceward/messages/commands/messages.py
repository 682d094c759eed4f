"""The commands `messages ls|show|resolve|cancel|parked`. Their lists show no addresses and no texts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from onceward.cli.exits import CommandFailed, Exit
from onceward.cli.moments import moment
from onceward.cli.progress import interruptible, progress
from onceward.cli.rendering import JsonOption, document, listing, say
from onceward.cli.session import opened_database, run

if TYPE_CHECKING:
    from uuid import UUID

    from onceward.db import Database
    from onceward.messages.unknown_outcomes import UnknownFilter

BY = "operator:cli"
Status = Literal["pending", "processing", "sent", "success", "failed", "dead_letter", "cancelled", "expired", "unknown"]
Channel = Literal["email", "sms", "whatsapp", "slack", "push", "dashboard"]
COLUMNS = ("id", "channel", "template", "status", "reason", "attempts", "sent_at", "created_at")

group = typer.Typer(no_args_is_help=True, help="List, inspect, resolve and cancel messages.")

OrganizationOption = Annotated[
    str | None, typer.Option("--organization", "-o", help="Only messages of this organization: slug or id.")
]


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="messages")


@group.command("ls")
def ls(
    status: Annotated[Status | None, typer.Option(help="Only messages in this state.")] = None,
    channel: Annotated[Channel | None, typer.Option(help="Only this channel.")] = None,
    template: Annotated[str | None, typer.Option(help="Only messages of this template.")] = None,
    organization: OrganizationOption = None,
    before: Annotated[
        int | None, typer.Option("--before", help="Only messages with a smaller id: the next page.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Maximum number of messages.")] = 50,
    as_json: JsonOption = False,
) -> None:
    """List messages, newest first."""
    from onceward.messages.operations import list_messages

    async def main() -> list[dict[str, Any]]:
        async with opened_database() as db:
            whose = await _organization(db, organization)
            found = await list_messages(
                db, status=status, channel=channel, template=template, organization=whose, before=before, limit=limit
            )
            return [dict(row) for row in found.rows]

    listing(run(main()), columns=COLUMNS, as_json=as_json, empty="no messages")


@group.command("show")
def show(id: Annotated[int, typer.Argument(help="Id of the message.")]) -> None:
    """Show one message with all its attempts as JSON: its data included, its address not."""
    from onceward.messages.operations import show_message

    async def main() -> dict[str, Any] | None:
        async with opened_database() as db:
            return await show_message(db, id)

    message = run(main())
    if message is None:
        raise CommandFailed(f"there is no message {id}")
    document(message)


@group.command("resolve")
def resolve(
    verdict: Annotated[
        str, typer.Argument(help="sent: the messages arrived; resend: they did not arrive, send them again.")
    ],
    ids: Annotated[
        list[int] | None, typer.Argument(metavar="[ID]...", help="Ids of messages whose outcome is unknown.")
    ] = None,
    channel: Annotated[Channel | None, typer.Option(help="Only this channel.")] = None,
    template: Annotated[str | None, typer.Option(help="Only messages of this template.")] = None,
    organization: OrganizationOption = None,
    since: Annotated[str | None, typer.Option(help="The send began after: 30m, 12h or 7d ago, or an ISO time.")] = None,
    until: Annotated[
        str | None, typer.Option(help="The send began before: 30m, 12h or 7d ago, or an ISO time.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Maximum number of messages.")] = 1000,
    reason: Annotated[str, typer.Option(help="How you know the outcome; required, written to the audit log.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the messages; change nothing.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Record the outcome of messages whose send the service never answered: by id, or all that match a filter."""
    from onceward.messages.unknown_outcomes import Resolved, UnknownFilter, resolve_all, unknown_messages

    if verdict not in ("sent", "resend"):
        raise CommandFailed(f"verdict must be sent or resend, not {verdict!r}", Exit.USAGE)
    filter = UnknownFilter(ids=ids, channel=channel, template=template, since=moment(since), until=moment(until))
    if filter.is_empty and organization is None:
        options = "--channel, --template, --organization, --since or --until"
        raise CommandFailed(f"resolve needs the ids of messages, or a filter: {options}", Exit.USAGE)
    if not dry_run and not reason.strip():
        raise CommandFailed("resolve needs --reason, which is written to the audit log", Exit.USAGE)
    interrupted = False

    async def show() -> list[dict[str, Any]]:
        async with opened_database() as db:
            chosen = await _within(db, filter, organization)
            return [row async for rows in unknown_messages(db, chosen, limit=limit) for row in rows]

    async def change() -> Resolved:
        async with opened_database() as db:
            chosen = await _within(db, filter, organization)
            with interruptible() as asked_to_stop, progress() as tell:

                def after_batch(resolved: Resolved) -> bool:
                    nonlocal interrupted
                    tell(f"{verdict}: {len(resolved.done)} done, {len(resolved.skipped)} skipped")
                    interrupted = asked_to_stop()
                    return not interrupted

                return await resolve_all(
                    db, chosen, verdict, by=BY, reason=reason, limit=limit, after_batch=after_batch
                )

    if dry_run:
        columns = ("id", "channel", "template", "reason", "attempts", "sending_since", "created_at")
        listing(run(show()), columns=columns, as_json=as_json, empty="no message with an unknown outcome matches")
        return
    resolved = run(change())
    missing = [id for id in ids or () if id not in resolved.done]
    if as_json:
        document({"done": resolved.done, "skipped": resolved.skipped, "interrupted": interrupted})
    else:
        say(f"{verdict}: {len(resolved.done)} done")
    if interrupted:
        raise CommandFailed(
            "interrupted: everything counted above is committed; run the same command again for the rest",
            Exit.INTERRUPTED,
        )
    if missing:
        listed = ", ".join(map(str, missing))
        raise CommandFailed(
            f"not resolved: {listed}: no such message, its outcome is not unknown, or a filter excludes it"
        )


async def _within(db: Database, filter: UnknownFilter, organization: str | None) -> UnknownFilter:
    """Return the filter with the organization that the slug or id names."""
    whose = await _organization(db, organization)
    return filter if whose is None else replace(filter, organization=whose)


async def _organization(db: Database, name: str | None) -> UUID | None:
    from onceward.trust import find_organization

    if name is None:
        return None
    async with db.acquire() as conn:
        return (await find_organization(conn, name)).organization_id


@group.command("cancel")
def cancel(
    key: Annotated[str, typer.Argument(help="Key of the message.")],
    organization: Annotated[
        str | None,
        typer.Option("--organization", "-o", help="Slug or id of the organization. Default: a message of none."),
    ] = None,
) -> None:
    """Cancel a message that has not been sent."""
    from onceward.messages.operations import cancel_by_key

    async def main() -> bool:
        async with opened_database() as db:
            whose = await _organization(db, organization)
            async with db.transaction(role="engine") as tx:
                return await cancel_by_key(tx, key, organization=whose, by=BY)

    if not run(main()):
        raise CommandFailed(f"no message with key {key!r} of {organization or 'no organization'} is waiting to be sent")
    say("cancelled")


@group.command("parked")
def parked(as_json: JsonOption = False) -> None:
    """List the accounts and templates that are paused, why, and what to do about those that a service refuses."""
    from onceward.messages.operations import parked as parked_accounts

    async def main() -> list[dict[str, Any]]:
        async with opened_database() as db:
            return await parked_accounts(db)

    columns = ("channel", "organization_id", "template", "language", "reason", "advice", "since", "until", "failures")
    listing(run(main()), columns=columns, as_json=as_json, empty="no account is parked")


@group.command("resume")
def resume(
    channel: Annotated[Channel, typer.Argument(help="Channel whose account was repaired.")],
    organization: Annotated[
        str | None,
        typer.Option(
            "--organization",
            "-o",
            help="Slug or id of the organization that has the account; default: the installation.",
        ),
    ] = None,
) -> None:
    """Try a refused account again at once, after you have repaired it. One message probes it; the others follow."""
    from onceward.messages.troubles import Troubles, list_troubles

    async def main() -> int:
        async with opened_database() as db:
            owner = await _organization(db, organization)
            troubles = Troubles(db)
            rows = await list_troubles(db, channel=channel, owner=owner)
            return sum([await troubles.probe_now(row["id"]) for row in rows])

    if not (count := run(main())):
        raise CommandFailed(f"no service refuses an account of channel {channel!r}: see `onceward messages parked`")
    say(f"{count} to be tried again")
