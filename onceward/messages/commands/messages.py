"""The commands `messages ls|show|resolve|cancel|parked`. Their lists show no addresses and no texts."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from onceward.cli.exits import CommandFailed, Exit
from onceward.cli.rendering import JsonOption, document, listing, say
from onceward.cli.session import opened_database, run

BY = "operator:cli"
COLUMNS = ("id", "channel", "template", "status", "reason", "attempts", "sent_at", "created_at")

group = typer.Typer(no_args_is_help=True, help="List, inspect, resolve and cancel messages.")


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="messages")


@group.command("ls")
def ls(
    status: Annotated[
        str | None, typer.Option(help="Only messages in this state: pending, sent, failed, cancelled or unknown.")
    ] = None,
    channel: Annotated[
        str | None, typer.Option(help="Only this channel: email, slack, sms, whatsapp, push or dashboard.")
    ] = None,
    template: Annotated[str | None, typer.Option(help="Only messages of this template.")] = None,
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
            return await list_messages(
                db, status=status, channel=channel, template=template, before=before, limit=limit
            )

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
    id: Annotated[int, typer.Argument(help="Id of a message whose outcome is unknown.")],
    verdict: Annotated[
        str, typer.Argument(help="sent: the message arrived; resend: it did not arrive, send it again.")
    ],
    reason: Annotated[str, typer.Option(help="How you know the outcome; written to the audit log.")],
) -> None:
    """Record the outcome of a message whose send the service never answered."""
    from onceward.messages.operations import resolve as resolve_message

    if verdict not in ("sent", "resend"):
        raise CommandFailed(f"verdict must be sent or resend, not {verdict!r}", Exit.USAGE)

    async def main() -> bool:
        async with opened_database() as db, db.transaction(role="engine") as tx:
            return await resolve_message(tx, id, verdict, by=BY, reason=reason)

    if not run(main()):
        raise CommandFailed(f"message {id} does not exist, or its outcome is not unknown")
    say(f"message {id}: {verdict}")


@group.command("cancel")
def cancel(key: Annotated[str, typer.Argument(help="Key of a message that belongs to no organization.")]) -> None:
    """Cancel a message that has not been sent."""
    from onceward.messages.operations import cancel_by_key

    async def main() -> bool:
        async with opened_database() as db, db.transaction(role="engine") as tx:
            return await cancel_by_key(tx, key, organization=None, by=BY)

    if not run(main()):
        raise CommandFailed(f"no message with key {key!r} is waiting to be sent")
    say("cancelled")


@group.command("parked")
def parked(as_json: JsonOption = False) -> None:
    """List the channels that are paused because their service is unreachable or asked for a pause."""
    from onceward.messages.operations import parked as parked_channels

    async def main() -> list[dict[str, Any]]:
        async with opened_database() as db:
            return await parked_channels(db)

    columns = ("name", "parked_until", "parked_for", "failures")
    listing(run(main()), columns=columns, as_json=as_json, empty="no channel is parked")
