"""`dead-letters ls|show|groups|replay|discard`: inspect dead letters, replay or discard them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from onceward.cli.exits import CommandFailed, Exit
from onceward.cli.moments import moment
from onceward.cli.progress import interruptible, progress
from onceward.cli.rendering import JsonOption, StreamedListing, document, listing, say
from onceward.cli.session import opened_database, run

group = typer.Typer(no_args_is_help=True, help="Dead letters: find, inspect, replay or discard them.")

Ids = Annotated[list[int] | None, typer.Argument(metavar="[ID]...", help="Ids of dead letters.")]
Kind = Annotated[str | None, typer.Option("--kind", help="event, job, message or delivery.")]
Task = Annotated[str | None, typer.Option("--task", help="The task, e.g. stripe/charge.succeeded or a job's name.")]
Provider = Annotated[str | None, typer.Option("--provider", help="Events of this provider.")]
Why = Annotated[str | None, typer.Option("--dead-reason", help="e.g. max_attempts_exceeded, permanent, timeout.")]
Error = Annotated[str | None, typer.Option("--error", help="The error's type, e.g. TimeoutError.")]
Since = Annotated[
    str | None, typer.Option("--since", help="Became a dead letter after: 30m, 12h or 7d ago, or an ISO time.")
]
Until = Annotated[
    str | None, typer.Option("--until", help="Became a dead letter before: 30m, 12h or 7d ago, or an ISO time.")
]
Limit = Annotated[int, typer.Option("--limit", min=1, max=100_000, help="The maximum number of dead letters.")]
Reason = Annotated[str, typer.Option("--reason", help="Why you do this; required, written to the audit log.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show the dead letters; change nothing.")]

COLUMNS = ("id", "kind", "task", "attempts", "reason", "error", "dead_at")


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="dead-letters")


def _row(letter: Any) -> dict[str, Any]:
    error: dict[str, Any] = letter.error or {}
    return {
        "id": letter.id,
        "kind": letter.kind,
        "task": letter.task,
        "attempts": letter.attempts,
        "reason": letter.reason,
        "error": f"{error.get('type', '')}: {str(error.get('message', ''))[:80]}" if error else None,
        "dead_at": letter.dead_at,
        "organization_id": letter.organization_id,
    }


@group.command("ls")
def ls(
    kind: Kind = None,
    task: Task = None,
    provider: Provider = None,
    dead_reason: Why = None,
    error: Error = None,
    since: Since = None,
    until: Until = None,
    before: Annotated[
        int | None, typer.Option("--before", help="Only dead letters with a smaller id: the next page.")
    ] = None,
    limit: Limit = 100,
    as_json: JsonOption = False,
) -> None:
    """List dead letters, newest first."""
    from onceward.work import dead_letters

    filter = dead_letters.DeadLetterFilter(
        kind=kind,
        task=task,
        provider=provider,
        reason=dead_reason,
        error=error,
        since=moment(since),
        until=moment(until),
    )

    run(_list(filter, limit=limit, before=before, as_json=as_json, empty="no dead letters"))


async def _list(filter: Any, *, limit: int, before: int | None = None, as_json: bool, empty: str) -> None:
    """Print dead letters as they are read."""
    from onceward.work import dead_letters

    rows = StreamedListing(columns=COLUMNS, as_json=as_json, empty=empty)
    async with opened_database() as db:
        async for letters in dead_letters.pages(db, filter, limit=limit, before=before):
            rows.add([_row(letter) for letter in letters])
    rows.end()


@group.command("groups")
def groups(as_json: JsonOption = False) -> None:
    """Count dead letters by task, reason and error, the largest group first."""
    from onceward.work import dead_letters

    async def query() -> list[dict[str, Any]]:
        async with opened_database() as db:
            return await dead_letters.groups(db)

    columns = ("count", "kind", "task", "reason", "error", "first_at", "last_at")
    listing(run(query()), columns=columns, as_json=as_json, empty="no dead letters")


@group.command("show")
def show(id: Annotated[int, typer.Argument(metavar="ID")]) -> None:
    """Print one dead letter with every attempt, error and stack as JSON."""
    from onceward.work import dead_letters

    async def query() -> dict[str, Any] | None:
        async with opened_database() as db:
            letters = await dead_letters.find(db, dead_letters.DeadLetterFilter(ids=[id]), limit=1)
            return {**_row(letters[0]), "attempts": await dead_letters.history(db, id)} if letters else None

    letter = run(query())
    if letter is None:
        raise CommandFailed(f"{id} is not a dead letter: `onceward trace {id}` shows its state")
    document(letter)


def _changing_command(verb: Literal["replay", "discard"], promise: str) -> None:
    """Add a command that changes the selected dead letters."""

    @group.command(verb, help=promise)
    def change(
        ids: Ids = None,
        kind: Kind = None,
        task: Task = None,
        provider: Provider = None,
        dead_reason: Why = None,
        error: Error = None,
        since: Since = None,
        until: Until = None,
        limit: Limit = 100,
        reason: Reason = "",
        dry_run: DryRun = False,
        as_json: JsonOption = False,
    ) -> None:
        from onceward.work import dead_letters

        filter = dead_letters.DeadLetterFilter(
            ids=ids or None,
            kind=kind,
            task=task,
            provider=provider,
            reason=dead_reason,
            error=error,
            since=moment(since),
            until=moment(until),
        )
        _act(verb, filter, limit=limit, reason=reason, dry_run=dry_run, as_json=as_json)

    assert change  # Typer has registered it


_changing_command(
    "replay", "Make dead letters due again. They keep their ids, so committed effects do not happen twice."
)
_changing_command("discard", "Remove dead letters from the list for good.")


def _act(verb: str, filter: Any, *, limit: int, reason: str, dry_run: bool, as_json: bool) -> None:
    from onceward.trust.identity import COMMAND_LINE
    from onceward.work import dead_letters

    if filter.empty:
        options = "--kind, --task, --provider, --dead-reason, --error, --since or --until"
        raise CommandFailed(f"{verb} needs the ids of dead letters, or a filter: {options}", Exit.USAGE)
    if not dry_run and not reason.strip():
        raise CommandFailed(f"{verb} needs --reason, which is written to the audit log", Exit.USAGE)

    if dry_run:
        run(_list(filter, limit=limit, as_json=as_json, empty=f"nothing to {verb}"))
        return

    interrupted = False

    async def work() -> Any:
        nonlocal interrupted
        async with opened_database() as db:
            with interruptible() as asked_to_stop, progress() as tell:

                def after_batch(acted: dead_letters.Acted) -> bool:
                    nonlocal interrupted
                    tell(f"{verb}: {len(acted.done)} done, {len(acted.skipped)} skipped")
                    interrupted = asked_to_stop()
                    return not interrupted

                change = getattr(dead_letters, verb)
                return await change(db, filter, actor=COMMAND_LINE, reason=reason, limit=limit, after_batch=after_batch)

    try:
        done = run(work())
    except ValueError as error:
        raise CommandFailed(str(error)) from None
    if as_json:
        document({"done": done.done, "skipped": done.skipped, "interrupted": interrupted})
    else:
        say(f"{verb}: {len(done.done)} done" + (f", {len(done.skipped)} skipped" if done.skipped else ""))
        for id, why in done.skipped.items():
            say(f"  {id}: {why}")
    if interrupted:
        raise CommandFailed(
            "interrupted: everything counted above is committed, the rest is unchanged;"
            " run the same command again for the rest: nothing is done twice",
            Exit.INTERRUPTED,
        )
