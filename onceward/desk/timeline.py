"""The timeline of an object: what the audit log, notes of staff and records of the app say about it, newest first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from onceward.statements import read_statement
from onceward.trust.people import names_of
from onceward.web.dashboard.page import PageReader

READ = read_statement("desk", "timeline")
SHOWN = 100


class Moment(NamedTuple):
    """One line: when, what, by whom and why. `path` leads to what caused it."""

    at: datetime
    what: str
    who: str
    why: str
    path: str | None = None
    is_note: bool = False
    details: tuple[str, ...] = ()


Describe = Callable[[str, Mapping[str, Any]], tuple[str, ...]]


async def read_timeline(
    conn: PageReader,
    types: Sequence[str],
    id: str,
    *,
    words: Mapping[str, str],
    describe: Describe,
    further: str = "",
) -> list[Moment]:
    """Return the newest lines about an object. `describe` says what an action was given or changed.

    `further` is SQL of the app: `at`, `what`, `who` and perhaps `path`, with $1 as the id.
    """
    moments = [
        Moment(
            row["at"],
            row["body"] or words.get(row["action"], _words(row["action"])),
            _who(row["actor"]),
            row["reason"] or "",
            None if row["caused_by"] is None else f"/dashboard/consequences/{row['caused_by']}",
            row["body"] is not None,
            describe(row["action"], row["changes"] or {}),
        )
        for row in await conn.fetch(READ, list(types), id, SHOWN)
    ]
    if further:
        rows: Sequence[Any] = await conn.fetch(f"select * from ({further}) t order by at desc limit {SHOWN}", id)
        moments += [Moment(row["at"], row["what"], _who(row["who"] or ""), "", row.get("path")) for row in rows]
    moments = [moment for moment in moments if moment.what]
    return sorted(moments, key=lambda moment: moment.at, reverse=True)[:SHOWN]


def _words(action: str) -> str:
    return action.rpartition(".")[2].replace("_", " ").capitalize()


async def named(conn: PageReader, moments: Sequence[Moment]) -> list[Moment]:
    """Return the moments with names of members instead of ids. Handlers cannot read names: this reads as the engine."""
    names = await names_of(conn, {moment.who for moment in moments})
    return [moment._replace(who=names.get(moment.who, moment.who)) for moment in moments]


def _who(actor: str) -> str:
    kind, colon, name = actor.partition(":")
    if not colon:
        return actor[:1].upper() + actor[1:]
    if kind in ("event", "job", "schedule", "workflow", "message"):
        return ""  # the line leads to what caused it
    return {"session": name, "key": f"key {name}", "operator": f"{name} (command line)", "token": f"user {name}"}.get(
        kind, f"{kind} {name}"
    )
