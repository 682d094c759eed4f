"""Set the clock `onceward.now()` of one database."""

from __future__ import annotations

from datetime import datetime, timedelta

from onceward.db import Database


class FrozenClock:
    """`async with FrozenClock(db, at) as clock: await clock.advance(hours=1)`. Leaving the block restores real time."""

    def __init__(self, db: Database, at: datetime) -> None:
        if at.tzinfo is None:
            raise ValueError(f"the clock needs an aware datetime, not {at}")
        self._db = db
        self.at = at

    async def __aenter__(self) -> FrozenClock:
        await self._set()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._define("select now()")

    async def advance(self, delta: timedelta | None = None, **units: float) -> datetime:
        """Move the clock forward, such as `advance(days=14)`, and return the new time."""
        self.at += delta if delta is not None else timedelta(**units)
        await self._set()
        return self.at

    async def move_to(self, at: datetime) -> None:
        self.at = at
        await self._set()

    async def _set(self) -> None:
        await self._define(f"select timestamptz '{self.at.isoformat()}'")

    async def _define(self, body: str) -> None:
        await self._db.execute(
            f"create or replace function onceward.now() returns timestamptz language sql stable parallel safe "
            f"as $${body}$$"
        )
