"""The tree of consequences for pages: read with the viewer's rights, similar nodes folded, also as text."""

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
"""The deepest level that is drawn; deeper trees are not readable."""
FOLD = 4
"""At least this many similar siblings with similar consequences are drawn as one node."""


async def trace_for(view: View, id: int, *, most: int) -> Trace | None:
    try:
        return await trace(cast(Transaction, view.conn), id, view.site.traced, most=most)
    except NotFound:
        return None


@dataclass(frozen=True, slots=True)
class Branch:
    """A node as it is drawn. It stands for `times` similar nodes."""

    node: Node
    times: int
    children: tuple[Branch, ...]
    focus: bool = False

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Branch]]:
        yield depth, self
        for child in self.children:
            yield from child.walk(depth + 1)


def branches(trace: Trace, *, fold: bool = True, most: int = 400) -> Branch:
    """Return the tree to draw: the chain of causes down to the node, then its consequences."""
    drawn = _branch(trace.node, _shapes(trace.node), [most], fold=fold, focus=True)
    for cause in reversed(trace.causes):
        drawn = Branch(cause, 1, (drawn,))
    return drawn


def _shapes(root: Node) -> dict[int, int]:
    """Return a number for the shape of each node's subtree, without ids and times. Equal subtrees have equal
    numbers."""
    numbers: dict[tuple[Any, ...], int] = {}
    shapes: dict[int, int] = {}
    for _, node in reversed(list(root.walk())):
        below = tuple(sorted(shapes[child.id] for child in node.children))
        # The label of a journal is its unique key, so labels of journals are ignored.
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
    children: list[Branch] = []
    if depth < DEEPEST:
        for alike in _alike(node.children, shapes, FOLD if fold else len(node.children) + 1):
            if left[0] <= 0:
                break
            left[0] -= 1
            children.append(_branch(alike[0], shapes, left, fold=fold, times=times * len(alike), depth=depth + 1))
    return Branch(node, times, tuple(children), focus)


def _alike(children: Sequence[Node], shapes: dict[int, int], least: int) -> list[list[Node]]:
    """Return the children in groups: similar children together if there are at least `least` of them, others alone."""
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
    """Return the tree as plain text."""
    out: list[str] = []

    def write(each: Branch, lead: str, mark: str, below: str) -> None:
        times = f"  x{each.times}" if each.times > 1 else ""
        took = took_s(each.node)
        out.append(
            f"{lead}{mark}{each.node.kind} {each.node.label}  #{each.node.id}{times}  "
            f"[{words(each.node.state or 'recorded')}]" + (f"  {seconds(took)}" if took is not None else "")
        )
        for at, child in enumerate(each.children):
            last = at == len(each.children) - 1
            write(child, lead + below, "└─ " if last else "├─ ", "   " if last else "│  ")

    write(branch, "", "", "")
    return "\n".join(out)


def took_s(node: Node) -> float | None:
    """Return the seconds from the creation of the row to the end of its last attempt, or None."""
    if node.at is None or node.finished_at is None:
        return None
    return max(0.0, (node.finished_at - node.at).total_seconds())


def extent(branch: Branch) -> tuple[datetime, datetime] | None:
    """Return the first start and the last end of all nodes, or None."""
    moments = [
        moment for _, each in branch.walk() for moment in (each.node.at, each.node.finished_at) if moment is not None
    ]
    return (min(moments), max(moments)) if moments else None
