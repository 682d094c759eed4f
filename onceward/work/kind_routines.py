"""Check the SQL routines of the kinds of work when a worker starts:

SQL builds their names, and would miss one at the first outcome.
"""

from __future__ import annotations

from collections.abc import Iterable

from onceward.db import Database
from onceward.errors import OncewardError
from onceward.work.task import Kind

MISSING = "select name from unnest($1::text[]) as n (name) where to_regproc(name) is null"


class RoutineMissing(OncewardError):
    """A kind of work names a SQL routine that the database does not have, or that SQL calls by another name."""


async def check_routines(db: Database, kinds: Iterable[Kind]) -> None:
    """Raise `RoutineMissing` unless each routine of the kinds exists under the name that SQL builds."""
    declared: dict[str, str] = {}
    for kind in kinds:
        routines = kind.routines
        for verb, name in (("settled", routines.settled), ("ended", routines.ended), ("succeed", routines.succeed)):
            if name is not None and name != f"onceward.{verb}_{kind.name}":
                raise RoutineMissing(
                    f"kind {kind.name!r}: routines.{verb} is {name!r}, but SQL calls onceward.{verb}_{kind.name}"
                )
            if name is not None:
                declared[name] = kind.name
    for row in await db.fetch(MISSING, list(declared)):
        raise RoutineMissing(
            f"kind {declared[row['name']]!r}: the database has no routine {row['name']}; run `onceward migrate`"
        )
