"""The consequences of one row: as a picture, as bars over time, and as text."""

from __future__ import annotations

from typing import Any

from onceward.web.dashboard.contribution import Hit
from onceward.web.dashboard.page import Missing, Page, View
from onceward.work.pages.picture import CARD_H, CARD_W, PathOf, draw, state_of
from onceward.work.pages.tracing import Branch, as_text, branches, extent, trace_for

MOST = 2000
BAR_W = 1000


async def load(view: View) -> dict[str, Any]:
    id = view.number("id")
    trace = None if id is None else await trace_for(view, id, most=MOST)
    if trace is None or id is None:
        raise Missing(f"no row with the id {view.text('id')} exists, or it belongs to another organization")
    fold = view.text("each") != "yes"
    root = branches(trace, fold=fold)
    states: dict[str, int] = {}
    kinds: dict[str, int] = {}
    for _, node in trace.node.walk():
        states[node.state or "recorded"] = states.get(node.state or "recorded", 0) + 1
        kinds[node.kind] = kinds.get(node.kind, 0) + 1
    return {
        "title": f"Consequences of {trace.node.kind} {id}",
        "trace": trace,
        "node": trace.node,
        "path": view.site.path_of(trace.node.kind, id),
        "count": trace.node.count() - 1,
        "dead": [node.id for _, node in trace.node.walk() if node.state == "dead_letter"][:500],
        "folded": fold and any(each.times > 1 for _, each in root.walk()),
        "fold": fold,
        "states": states,
        "kinds": kinds,
        "picture": draw(root, view.site.path_of),
        "card_size": (CARD_W, CARD_H),
        "bars": _bars(root, view.site.path_of),
        "bar_w": BAR_W,
        "extent": extent(root),
        "text": as_text(root),
    }


def _bars(root: Branch, path_of: PathOf) -> list[dict[str, Any]]:
    """Return a bar over time for each node. The bar of an unfinished node reaches to the last known time."""
    span = extent(root)
    rows: list[dict[str, Any]] = []
    for depth, each in root.walk():
        start = width = None
        if span is not None and each.node.at is not None:
            whole = max(1e-6, (span[1] - span[0]).total_seconds())
            end = each.node.finished_at or (each.node.at if each.node.state in ("recorded", "sent") else span[1])
            start = (each.node.at - span[0]).total_seconds() / whole * BAR_W
            width = max(4.0, (end - each.node.at).total_seconds() / whole * BAR_W)
            start = min(start, BAR_W - 4.0)
        rows.append(
            {
                "depth": min(depth, 12),
                "branch": each,
                "state": state_of(each),
                "start": start,
                "width": width,
                "path": path_of(each.node.kind, each.node.id),
            }
        )
    return rows


async def find_by_id(view: View, name: str) -> list[Hit]:
    """Find a row of any kind by its id."""
    if view.number("q") is None:
        return []
    trace = await trace_for(view, int(name), most=1)
    return [] if trace is None else [Hit(trace.node.kind, int(name))]


PAGES = (
    Page(
        name="consequences",
        path="/dashboard/consequences/{id}",
        title="Consequences",
        load=load,
        template="consequences.html",
    ),
)
