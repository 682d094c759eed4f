"""`messages ls|show|resolve|cancel|parked`: what was said to whom, without addresses or texts."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from onceward.cli.exits import CommandFailed, Exit
from onceward.cli.rendering import JsonOption, document, listing, say
from onceward.cli.session import opened_database, run

BY = "operator:cli"
COLUMNS = ("id", "channel", "template", "status", "reason", "attempts", "sent_at", "created_at")

group = typer.Typer(no_args_is_help=True, help="Messages: look, settle what is unknown, cancel.")


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="messages")


@group.command("ls")
def ls(
    status: Annotated[str | None, typer.Option(help="pending, sent, failed, cancelled, unknown.")] = None,
    channel: Annotated[str | None, typer.Option(help="email, slack, sms, whatsapp, push, dashboard.")] = None,
    template: Annotated[str | None, typer.Option(help="Only messages of this template.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many.")] = 50,
    as_json: JsonOption = False,
) -> None:
    """Messages, newest first."""
    from onceward.messages.operations import list_messages

    async def main() -> list[dict[str, Any]]:
        async with opened_database() as db:
            return await list_messages(db, status=status, channel=channel, template=template, limit=limit)

    listing(run(main()), columns=COLUMNS, as_json=as_json, empty="no messages")


@group.command("show")
def show(id: Annotated[int, typer.Argument(help="Number of the message.")]) -> None:
    """One message with every attempt, as JSON. Its data are part of it, its address is not."""
    from onceward.messages.operations import show_message

    async def main() -> dict[str, Any] | None:
        async with opened_database() as db:
            return await show_message(db, id)

    found = run(main())
    if found is None:
        raise CommandFailed(f"there is no message {id}")
    document(found)


@group.command("resolve")
def resolve(
    id: Annotated[int, typer.Argument(help="Number of a message whose outcome is unknown.")],
    verdict: Annotated[str, typer.Argument(help="sent: it did arrive; resend: it did not, send it again.")],
    reason: Annotated[str, typer.Option(help="How you know; goes into the audit log.")],
) -> None:
    """Say what became of a message that was sent and never answered."""
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
def cancel(key: Annotated[str, typer.Argument(help="Key of the message, platform-wide ones only.")]) -> None:
    """Keep a queued message from being sent."""
    from onceward.messages import cancel as cancel_message

    async def main() -> bool:
        async with opened_database() as db, db.transaction(role="engine") as tx:
            return await cancel_message(tx, key, reason="cancelled by an operator")

    if not run(main()):
        raise CommandFailed(f"no message with key {key!r} waits to be sent")
    say("cancelled")


@group.command("parked")
def parked(as_json: JsonOption = False) -> None:
    """Channels that rest because their service cannot be reached."""
    from onceward.messages.operations import parked as parked_channels

    async def main() -> list[dict[str, Any]]:
        async with opened_database() as db:
            return await parked_channels(db)

    columns = ("name", "parked_until", "parked_for", "failures")
    listing(run(main()), columns=columns, as_json=as_json, empty="no channel is parked")
