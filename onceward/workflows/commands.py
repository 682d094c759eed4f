"""`workflows ls|show|cancel|retry|fork|signal`: inspect and control workflows."""

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

Id = Annotated[int, typer.Argument(metavar="ID", help="The id of the workflow.")]
Reason = Annotated[str, typer.Option("--reason", help="The reason, for the audit log.")]
ACTOR = "operator:cli"
COLUMNS = ("id", "name", "state", "phase", "key", "created_at", "due_at", "finished_at", "caused_by")

group = typer.Typer(no_args_is_help=True, help="Workflows: list, show steps, cancel, retry, fork, signal.")


def register(cli: typer.Typer) -> None:
    cli.add_typer(group, name="workflows")


def _call(operation: Callable[[Database], Awaitable[T]]) -> T:
    from onceward.workflows import WorkflowState

    async def call() -> T:
        async with opened_database() as db:
            try:
                return await operation(db)
            except WorkflowState as error:
                raise CommandFailed(str(error)) from error

    return run(call())


@group.command("ls")
def ls(
    name: Annotated[str | None, typer.Option("--name", help="Only workflows with this name.")] = None,
    state: Annotated[str | None, typer.Option("--state", help="running, compensating, success, failed, ...")] = None,
    key: Annotated[str | None, typer.Option("--key", help="Only the workflow with this key.")] = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option("--attribute", "-a", help="Only workflows with the attribute NAME=VALUE; repeatable."),
    ] = None,
    before: Annotated[
        int | None, typer.Option("--before", help="Only workflows with a lower id: the next page.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000)] = 50,
    as_json: JsonOption = False,
) -> None:
    """List workflows, newest first."""
    from onceward.workflows import operate

    criteria = operate.WorkflowFilter(name=name, state=state, key=key, attributes=_attributes(attribute or []))
    rows = _call(lambda db: operate.find(db, criteria, before=before, limit=limit)).rows
    listing(rows, columns=COLUMNS, as_json=as_json, empty="no workflows")


@group.command("show")
def show(id: Id, as_json: JsonOption = False) -> None:
    """Show one workflow: its state, every step and compensation in order, with attempts and errors."""
    from onceward.workflows import operate

    flow = _call(lambda db: operate.show(db, id))
    if as_json:
        document(flow)
        return
    for line in operate.tell(flow):
        say(line)


@group.command("cancel")
def cancel(id: Id, reason: Reason = "") -> None:
    """Cancel a workflow. Its compensations run in reverse order and undo its steps."""
    from onceward.workflows import operate

    say(_call(lambda db: operate.cancel(db, id, actor=ACTOR, reason=reason)))


@group.command("retry")
def retry(id: Id, reason: Reason = "") -> None:
    """Continue a dead letter where it stopped, or retry the failed steps of a failed workflow."""
    from onceward.workflows import operate

    _call(lambda db: operate.retry(db, id, actor=ACTOR, reason=reason))
    say(f"workflow {id} continues")


@group.command("fork")
def fork(
    id: Id,
    step: Annotated[str, typer.Argument(metavar="STEP", help="Position or key of the first step to run again.")],
    reason: Reason = "",
) -> None:
    """Start a new workflow that keeps the steps recorded before STEP and runs from there."""
    from onceward.workflows import operate

    new = _call(lambda db: operate.fork(db, id, from_step=step, actor=ACTOR, reason=reason))
    say(f"workflow {new} continues from step {step} of workflow {id}")


@group.command("signal")
def signal(
    id: Id,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the signal.")],
    payload: Annotated[str, typer.Argument(metavar="[JSON]", help="The payload of the signal.")] = "null",
) -> None:
    """Send a signal to a workflow."""
    from onceward.workflows import operate

    try:
        value: Any = json.loads(payload)
    except ValueError as error:
        raise CommandFailed(f"{payload!r} is not JSON: {error}") from error
    say(_call(lambda db: operate.signal(db, id, name, value, actor=ACTOR)))


def _attributes(options: list[str]) -> dict[str, Any] | None:
    """Parse NAME=VALUE options. A value that is valid JSON is decoded (`order=7` is a number); any other is text."""
    attributes: dict[str, Any] = {}
    for option in options:
        name, equals, text = option.partition("=")
        if not equals:
            raise CommandFailed(f"--attribute {option!r} must have the form NAME=VALUE")
        try:
            attributes[name] = json.loads(text)
        except ValueError:
            attributes[name] = text
    return attributes or None
