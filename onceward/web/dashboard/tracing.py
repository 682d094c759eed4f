"""The tree of consequences as pages use it: read for whoever looks, folded where many are alike, written as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from onceward.db import Transaction
from onceward.trust import NotFound
from onceward.trust.cause import Node, Trace, trace
from onceward.web.dashboard.formats import seconds, words
from onceward.web.dashboard.looking import Reader

FOLD = 4
"""Brothers that are alike in kind, name and state and have no consequences are drawn as one from this number on."""


async def trace_for(conn: Reader, id: int, *, most: int) -> Trace | None:
    try:
        return await trace(cast(Transaction, conn), id, most=most)
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


def branches(trace: Trace, *, most: int = 400) -> Branch:
    """The whole picture: the chain of causes down to the node, then everything below it."""
    left = [most]
    drawn = _branch(trace.node, left, focus=True)
    for cause in reversed(trace.causes):
        drawn = Branch(cause, 1, (drawn,))
    return drawn


def _branch(node: Node, left: list[int], *, focus: bool = False, depth: int = 0) -> Branch:
    made: list[Branch] = []
    if depth < 60:
        for same in _folded(node.children):
            if left[0] <= 0:
                break
            left[0] -= 1
            below = _branch(same[0], left, depth=depth + 1) if len(same) == 1 else Branch(same[0], len(same), ())
            made.append(below)
    return Branch(node, 1, tuple(made), focus)


def _folded(children: Sequence[Node]) -> list[list[Node]]:
    alike: dict[tuple[str, str, str | None], list[Node]] = {}
    for child in children:
        if not child.children:
            alike.setdefault((child.kind, child.label, child.state), []).append(child)
    folded: list[list[Node]] = []
    seen: set[tuple[str, str, str | None]] = set()
    for child in children:
        like = (child.kind, child.label, child.state)
        group = alike.get(like, [])
        if child.children or len(group) < FOLD:
            folded.append([child])
        elif like not in seen:
            seen.add(like)
            folded.append(group)
    return folded


def as_text(branch: Branch) -> str:
    """The tree in plain text, to paste where pictures cannot go."""
    out: list[str] = []

    def write(each: Branch, lead: str, mark: str, below: str) -> None:
        times = f"  x{each.times}" if each.times > 1 else ""
        took = took_s(each.node)
        out.append(
            f"{lead}{mark}{each.node.kind} {each.node.label}  #{each.node.id}{times}  [{words(each.node.state)}]"
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
