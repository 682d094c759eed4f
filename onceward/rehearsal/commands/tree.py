"""Print one rehearsal as a tree, like `onceward trace` prints consequences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onceward.rehearsal.lines import cost, headline, lines

if TYPE_CHECKING:
    from onceward.rehearsal.effects import Rehearsal

COLOURS = {"caused": "green", "nothing": "cyan", "put_off": "yellow", "outside": "yellow", "failed": "bold red"}


def print_tree(one: Rehearsal) -> None:
    """Print the work, its verdict, and a branch for each effect."""
    from rich.console import Console
    from rich.text import Text
    from rich.tree import Tree

    top = Text(f"{one.kind} {one.id}", style="bold reverse")
    top.append(f" {one.task}", style="not bold not reverse")
    top.append(f" [{headline(one)}]", style=f"not bold not reverse {COLOURS[one.state]}")
    top.append(f" {cost(one)}", style="not bold not reverse dim")
    root = Tree(top)
    for each in lines(one.effects):
        text = Text(each.kind, style="bold")
        text.append(f" {each.text}", style="not bold")
        if each.note is not None:
            text.append(f" [{each.note}]", style="not bold cyan")
        branch = root.add(text)
        for detail in each.details:
            branch.add(Text(detail, style="dim"))
    if one.result is not None:
        root.add(Text(f"returns {one.result!r:.200}"))
    Console(highlight=False).print(root, soft_wrap=True)
