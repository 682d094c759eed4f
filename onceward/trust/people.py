"""The names of members of organizations, for pages that show who did something."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Protocol

ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
NAMES = """
select user_id::text as id, coalesce(nullif(name, ''), email) as name
  from onceward.users where user_id = any($1::uuid[])
"""
FORMER = "a former member"


class EngineReader(Protocol):
    """Reads as the engine: handlers and viewers cannot read the names of people."""

    async def fetch(self, query: str, *args: Any) -> list[Any]: ...


async def names_of(engine: EngineReader, actors: Iterable[str]) -> dict[str, str]:
    """Return the name for each actor of the audit log (`session:<id>`, or the id alone) that is the id of a member."""
    ids = {actor: id for actor in actors if ID.fullmatch(id := actor.removeprefix("session:"))}
    if not ids:
        return {}
    names = {row["id"]: row["name"] for row in await engine.fetch(NAMES, sorted(set(ids.values())))}
    return {actor: names.get(id, FORMER) for actor, id in ids.items()}
