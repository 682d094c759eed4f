"""The timeline of an object: what the audit log, notes of staff and records of the app say about it, newest first."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from onceward.statements import read_statement
from onceward.web.dashboard.page import PageReader

READ = read_statement("desk", "timeline")
SHOWN = 100
ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
NAMES = """
select user_id::text as id, coalesce(nullif(name, ''), email) as name
  from onceward.users where user_id = any($1::uuid[])
"""


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

    `further` is SQL of the app: `at`, `what`, `who`, with $1 as the id.
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
        moments += [Moment(row["at"], row["what"], row["who"] or "", "") for row in rows]
    return sorted(moments, key=lambda moment: moment.at, reverse=True)[:SHOWN]


def _words(action: str) -> str:
    return action.rpartition(".")[2].replace("_", " ").capitalize()


async def named(conn: PageReader, moments: Sequence[Moment]) -> list[Moment]:
    """Return the moments with names of members instead of ids. Handlers cannot read names: this reads as the engine."""
    ids = {moment.who for moment in moments if ID.fullmatch(moment.who)}
    if not ids:
        return list(moments)
    names = {row["id"]: row["name"] for row in await conn.fetch(NAMES, sorted(ids))}
    return [
        moment._replace(who=names.get(moment.who, "a former member") if moment.who in ids else moment.who)
        for moment in moments
    ]


def _who(actor: str) -> str:
    kind, colon, name = actor.partition(":")
    if not colon:
        return actor.capitalize()
    return {"session": name, "key": f"key {name}", "operator": f"{name} (command line)", "token": f"user {name}"}.get(
        kind, f"{kind} {name}"
    )
