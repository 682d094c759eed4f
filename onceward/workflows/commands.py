"""`workflows ls|show|cancel|retry|fork|signal`: look at workflows and steer them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from onceward.cli.exits import CommandFailed
from onceward.cli.rendering import JsonOption, document, listing, say
from onceward.cli.session import opened_database, run

if TYPE_CHECKING:
    from onceward.db import Database

T = TypeVar("T")

Id = Annotated[int, typer.Argument(metavar="ID", help="The number of the workflow.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; it goes into the audit log.")]
ACTOR = "operator:cli"
COLUMNS = ("id", "name", "state", "phase", "key", "created_at", "due_at", "finished_at", "caused_by")

group = typer.Typer(
    no_args_is_help=True, help="Workflows: list them, show the steps of one, cancel, retry, fork, signal."
)


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="workflows")


def _ask(question: Callable[[Database], Awaitable[T]]) -> T:
    from onceward.workflows import WorkflowState

    async def ask() -> T:
        async with opened_database() as db:
            try:
                return await question(db)
            except WorkflowState as error:
                raise CommandFailed(str(error)) from error

    return run(ask())


@group.command("ls")
def ls(
    name: Annotated[str | None, typer.Option("--name", help="Only workflows of this name.")] = None,
    state: Annotated[str | None, typer.Option("--state", help="running, compensating, success, failed, ...")] = None,
    key: Annotated[str | None, typer.Option("--key", help="Only the one with this key.")] = None,
    attribute: Annotated[
        list[str] | None, typer.Option("--attribute", "-a", help="NAME=VALUE that it must have; may be given again.")
    ] = None,
    before: Annotated[int | None, typer.Option("--before", help="Older than this id: the next page.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000)] = 50,
    as_json: JsonOption = False,
) -> None:
    """List workflows, newest first."""
    from onceward.workflows import operate

    wanted = operate.Filter(name=name, state=state, key=key, attributes=_attributes(attribute or []))
    found = _ask(lambda db: operate.find(db, wanted, before=before, limit=limit))
    listing(found, columns=COLUMNS, as_json=as_json, empty="no workflows")


@group.command("show")
def show(id: Id, as_json: JsonOption = False) -> None:
    """Show one workflow: its state, every step and compensation in order, with attempts and errors."""
    from onceward.workflows import operate

    flow = _ask(lambda db: operate.show(db, id))
    if as_json:
        document(flow)
        return
    for line in operate.tell(flow):
        say(line)


@group.command("cancel")
def cancel(id: Id, reason: Reason = "") -> None:
    """Stop a workflow. What it did is undone by its compensations, in reverse order."""
    from onceward.workflows import operate

    say(_ask(lambda db: operate.cancel(db, id, actor=ACTOR, reason=reason)))


@group.command("retry")
def retry(id: Id, reason: Reason = "") -> None:
    """Go on with a dead letter where it stopped, or try a failed workflow's failed steps again."""
    from onceward.workflows import operate

    _ask(lambda db: operate.retry(db, id, actor=ACTOR, reason=reason))
    say(f"workflow {id} goes on")


@group.command("fork")
def fork(
    id: Id,
    step: Annotated[str, typer.Argument(metavar="STEP", help="Position or key of the first step to run again.")],
    reason: Reason = "",
) -> None:
    """Start a new workflow that keeps what was done before STEP and goes on from there."""
    from onceward.workflows import operate

    new = _ask(lambda db: operate.fork(db, id, from_step=step, actor=ACTOR, reason=reason))
    say(f"workflow {new} goes on from step {step} of {id}")


@group.command("signal")
def signal(
    id: Id,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it waits for.")],
    payload: Annotated[str, typer.Argument(metavar="[JSON]", help="What it gets.")] = "null",
) -> None:
    """Send a signal to a workflow."""
    from onceward.workflows import operate

    try:
        value: Any = json.loads(payload)
    except ValueError as error:
        raise CommandFailed(f"{payload!r} is not JSON: {error}") from error
    say(_ask(lambda db: operate.signal(db, id, name, value, actor=ACTOR)))


def _attributes(given: list[str]) -> dict[str, Any] | None:
    """`order=7` is the number 7, `stage=late` the text; a value that is JSON is taken as such."""
    found: dict[str, Any] = {}
    for each in given:
        name, equals, text = each.partition("=")
        if not equals:
            raise CommandFailed(f"--attribute {each!r} must look like NAME=VALUE")
        try:
            found[name] = json.loads(text)
        except ValueError:
            found[name] = text
    return found or None
