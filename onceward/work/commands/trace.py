"""`trace`: what caused something, and all that it caused."""

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
        str, typer.Argument(metavar="ID", help="Id of an event, job, message, ..., a provider's event id, or a key.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Print the tree of consequences of anything, with states and times, below what caused it."""

    async def work() -> Trace:
        from onceward.work import trace

        async with opened_database() as db, db.acquire() as conn:
            return await trace(conn, ref, features_here().traced)

    found = run(work())
    if as_json:
        document(found.as_json())
        return
    _print(found)


def _print(found: Trace) -> None:
    from rich.console import Console
    from rich.tree import Tree

    top = [*found.causes, found.node]
    root = Tree(_line(top[0], asked=len(top) == 1))
    branch = root
    for node in top[1:]:
        branch = branch.add(_line(node, asked=node is found.node))
    waiting = [(branch, found.node)]
    while waiting:
        tree, node = waiting.pop()
        waiting += [(tree.add(_line(child)), child) for child in node.children]
    Console(highlight=False).print(root, soft_wrap=True)
    if found.truncated:
        say("... there is more; ask for one of the branches")


def _line(node: Node, *, asked: bool = False) -> Text:
    from rich.text import Text

    line = Text()
    line.append(f"{node.kind} {node.id}", style="bold reverse" if asked else "bold")
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
