"""What a request caused, read from the rows that it left, to compare with what its route declares."""

from __future__ import annotations

from onceward.db import Database
from onceward.web.exposure import Effect

COUNTS = """
select (select count(*) from onceward.messages where channel <> 'dashboard') as mail,
       (select count(*) from onceward.deliveries) as call,
       (select count(*) from onceward.jobs) + (select count(*) from onceward.workflows) as work
"""


class Effects:
    """Remembers the counts of the last request."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._before: dict[str, int] = {}

    async def problem(self, declared: tuple[Effect, ...]) -> str | None:
        """Return what happened since the last call and was not declared, or None."""
        row = await self._db.fetchrow(COUNTS)
        assert row is not None
        counts, before = dict(row), self._before
        self._before = counts
        grown = {name for name in counts if before and counts[name] > before[name]}
        undeclared = (grown - {"work"}) - set(declared)
        if undeclared:
            return f"caused {', '.join(sorted(undeclared))}, and declares {', '.join(declared)}"
        return (
            "started work and declares that it causes nothing" if "work" in grown and declared == ("nothing",) else None
        )
