"""`trace`: print the causes and consequences of a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from onceward.cli.rendering import JsonOption, document, say
from onceward.cli.session import features_here, opened_database, run

if TYPE_CHECKING:
    from rich.text import Text

    from onceward.work import Node, Trace

COLOURS = {"success": "green", "pending": "cyan", "processing": "yellow", "dead_letter": "bold red", "failed": "red"}


def register(cli: typer.Typer) -> None:
    cli.command("trace")(trace)


def trace(
    ref: Annotated[
        str,
        typer.Argument(metavar="ID", help="Id of an event, job, message, ..., a provider's event id, or a unique key."),
    ],
    as_json: JsonOption = False,
) -> None:
    """Print the causes and the tree of consequences of a row, with states and times."""

    async def work() -> Trace:
        from onceward.work import trace

        async with opened_database() as db, db.acquire() as conn:
            return await trace(conn, ref, features_here().traced)

    result = run(work())
    if as_json:
        document(result.as_json())
        return
    _print(result)


def _print(result: Trace) -> None:
    from rich.console import Console
    from rich.tree import Tree

    top = [*result.causes, result.node]
    root = Tree(_line(top[0], selected=len(top) == 1))
    branch = root
    for node in top[1:]:
        branch = branch.add(_line(node, selected=node is result.node))
    waiting = [(branch, result.node)]
    while waiting:
        tree, node = waiting.pop()
        waiting += [(tree.add(_line(child)), child) for child in node.children]
    Console(highlight=False).print(root, soft_wrap=True)
    if result.truncated:
        say("... the tree is cut off here: trace the id of a branch to see more")


def _line(node: Node, *, selected: bool = False) -> Text:
    from rich.text import Text

    line = Text()
    line.append(f"{node.kind} {node.id}", style="bold reverse" if selected else "bold")
    if node.label:
        line.append(f" {node.label}")
    if node.state:
        tries = f" after {node.attempts} attempts" if node.attempts and node.attempts > 1 else ""
        line.append(f" [{node.state}{tries}]", style=COLOURS.get(node.state, ""))
    if node.at is not None:
        line.append(f" {node.at:%Y-%m-%d %H:%M:%S}", style="dim")
        if node.finished_at is not None:
            line.append(f" +{(node.finished_at - node.at).total_seconds():.3f} s", style="dim")
    return line
