"""The tree of consequences as a picture. Each node stands to the right of its cause.

The layout is a tree on its side: each leaf has its own row, and a parent has the row of its first child, so the root is
at the top left in a tree of any size. All positions are computed here; the browser only draws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from onceward.web.dashboard.formats import seconds
from onceward.work.pages.tracing import Branch, took_s

PathOf = Callable[[str, int], str]
"""Returns the page of a node, given its kind and id."""

CARD_W, CARD_H = 218, 54
GAP_X, GAP_Y = 44, 16
MARGIN = 12
LABEL = 21


@dataclass(frozen=True, slots=True)
class Card:
    """One node with its position. `after` is the time between the start of the root and of this node."""

    x: float
    y: float
    kind: str
    label: str
    full: str
    id: int
    state: str
    times: int
    after: str
    took: str
    focus: bool
    path: str


@dataclass(frozen=True, slots=True)
class Link:
    path: str
    state: str


@dataclass(frozen=True, slots=True)
class Picture:
    width: float
    height: float
    cards: tuple[Card, ...]
    links: tuple[Link, ...]


def draw(root: Branch, path_of: PathOf) -> Picture:
    """Return the positions of all nodes and of the lines between causes and consequences."""
    cards: list[Card] = []
    links: list[Link] = []
    began = root.node.at
    row = 0
    deepest = 0

    def place(branch: Branch, depth: int) -> float:
        nonlocal row, deepest
        deepest = max(deepest, depth)
        x = MARGIN + depth * (CARD_W + GAP_X)
        if branch.children:
            middles = [place(child, depth + 1) for child in branch.children]
            y = middles[0]
        else:
            middles = []
            y = MARGIN + row * (CARD_H + GAP_Y) + CARD_H / 2
            row += 1
        for child, middle in zip(branch.children, middles, strict=True):
            links.append(Link(_curve(x + CARD_W, y, x + CARD_W + GAP_X, middle), state_of(child)))
        after = None if began is None or branch.node.at is None else (branch.node.at - began).total_seconds()
        took = took_s(branch.node)
        cards.append(
            Card(
                x=x,
                y=y - CARD_H / 2,
                kind=branch.node.kind,
                label=_cut(branch.node.label or branch.node.kind),
                full=branch.node.label,
                id=branch.node.id,
                state=state_of(branch),
                times=branch.times,
                after=_after(after) if depth else "",
                took="" if took is None else seconds(took),
                focus=branch.focus,
                path=path_of(branch.node.kind, branch.node.id),
            )
        )
        return y

    place(root, 0)
    width = 2 * MARGIN + (deepest + 1) * CARD_W + deepest * GAP_X
    height = 2 * MARGIN + row * CARD_H + (row - 1) * GAP_Y
    return Picture(width, height, tuple(cards), tuple(links))


def _after(after_s: float | None) -> str:
    """Return the time since the root. A row that the root's own commit wrote has the time of the root: nothing to
    show."""
    return "" if after_s is None or after_s <= 0 else f"+{seconds(after_s)}"


def state_of(branch: Branch) -> str:
    return (branch.node.state or "recorded").replace("_", "-")


def _curve(x1: float, y1: float, x2: float, y2: float) -> str:
    middle = (x1 + x2) / 2
    return f"M{x1:.1f} {y1:.1f} C{middle:.1f} {y1:.1f} {middle:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"


def _cut(text: str) -> str:
    return text if len(text) <= LABEL else text[: LABEL - 1] + "…"
