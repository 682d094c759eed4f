"""The tree of consequences as pages use it: read for whoever looks, folded where many are alike, written as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from onceward.db import Transaction
from onceward.trust import NotFound
from onceward.web.dashboard.formats import seconds, words
from onceward.web.dashboard.page import View
from onceward.work.consequences import Node, Trace, trace

DEEPEST = 60
"""Levels that are drawn; text and pictures deeper than that help nobody."""
FOLD = 4
"""Brothers that are alike, with all that they caused, are drawn as one from this number on."""


async def trace_for(view: View, id: int, *, most: int) -> Trace | None:
    try:
        return await trace(cast(Transaction, view.conn), id, view.site.traced, most=most)
    except NotFound:
        return None


@dataclass(frozen=True, slots=True)
class Branch:
    """A node as it is drawn; `times` stands for so many alike."""

    node: Node
    times: int
    children: tuple[Branch, ...]
    focus: bool = False

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Branch]]:
        yield depth, self
        for child in self.children:
            yield from child.walk(depth + 1)


def branches(trace: Trace, *, fold: bool = True, most: int = 400) -> Branch:
    """The whole picture: the chain of causes down to the node, then everything below it."""
    drawn = _branch(trace.node, _shapes(trace.node), [most], fold=fold, focus=True)
    for cause in reversed(trace.causes):
        drawn = Branch(cause, 1, (drawn,))
    return drawn


def _shapes(root: Node) -> dict[int, int]:
    """A number for what each node and all below it look like, without ids and times; from the leaves up."""
    numbers: dict[tuple[Any, ...], int] = {}
    shapes: dict[int, int] = {}
    for _, node in reversed(list(root.walk())):
        below = tuple(sorted(shapes[child.id] for child in node.children))
        # Every journal has a key of its own for a name; that alone makes it no different.
        looks = (node.kind, "" if node.kind == "journal" else node.label, node.state, below)
        shapes[node.id] = numbers.setdefault(looks, len(numbers))
    return shapes


def _branch(
    node: Node,
    shapes: dict[int, int],
    left: list[int],
    *,
    fold: bool,
    focus: bool = False,
    times: int = 1,
    depth: int = 0,
) -> Branch:
    made: list[Branch] = []
    if depth < DEEPEST:
        for alike in _alike(node.children, shapes, FOLD if fold else len(node.children) + 1):
            if left[0] <= 0:
                break
            left[0] -= 1
            made.append(_branch(alike[0], shapes, left, fold=fold, times=times * len(alike), depth=depth + 1))
    return Branch(node, times, tuple(made), focus)


def _alike(children: Sequence[Node], shapes: dict[int, int], least: int) -> list[list[Node]]:
    """The children, those that are alike together where there are at least so many of them."""
    groups: dict[int, list[Node]] = {}
    for child in children:
        groups.setdefault(shapes[child.id], []).append(child)
    out: list[list[Node]] = []
    for child in children:
        group = groups[shapes[child.id]]
        if len(group) < least:
            out.append([child])
        elif group[0] is child:
            out.append(group)
    return out


def as_text(branch: Branch) -> str:
    """The tree in plain text, to paste where pictures cannot go."""
    out: list[str] = []

    def write(each: Branch, lead: str, mark: str, below: str) -> None:
        times = f"  x{each.times}" if each.times > 1 else ""
        took = took_s(each.node)
        out.append(
            f"{lead}{mark}{each.node.kind} {each.node.label}  #{each.node.id}{times}  [{words(each.node.state or 'recorded')}]"
            + (f"  {seconds(took)}" if took is not None else "")
        )
        for at, child in enumerate(each.children):
            last = at == len(each.children) - 1
            write(child, lead + below, "└─ " if last else "├─ ", "   " if last else "│  ")

    write(branch, "", "", "")
    return "\n".join(out)


def took_s(node: Node) -> float | None:
    """From its beginning in the database to the end of its last attempt."""
    if node.at is None or node.finished_at is None:
        return None
    return max(0.0, (node.finished_at - node.at).total_seconds())


def extent(branch: Branch) -> tuple[datetime, datetime] | None:
    """When the first thing of the picture began, and when the last ended."""
    moments = [
        moment for _, each in branch.walk() for moment in (each.node.at, each.node.finished_at) if moment is not None
    ]
    return (min(moments), max(moments)) if moments else None
