"""The dashboard channel: a row in our own database, so each message arrives exactly once."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Literal

from onceward.db import FAILED, Database
from onceward.messages.channel import Letter
from onceward.services.outcome import Absent, Accepted, Lookup, ServiceAnswer, Unreachable
from onceward.statements import read_statement

INSERT = read_statement("messages", "add_dashboard_message")


class DashboardChannel:
    """Write one row per message. A repeated send changes nothing."""

    name: Literal["dashboard"] = "dashboard"
    sender = "dashboard"
    repeatable_for_s = float("inf")
    readable = True

    def __init__(self, db: Database) -> None:
        self._db = db

    def turn(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def send(self, letter: Letter) -> ServiceAnswer:
        severity = str(letter.data.get("severity", "info"))
        try:
            await self._db.execute(
                INSERT,
                letter.id,
                letter.organization,
                letter.to,
                str(letter.data.get("type", letter.template.name)),
                severity,
                letter.rendered.subject,
                letter.rendered.text,
            )
        except FAILED as error:
            return Unreachable(f"the database did not accept the row ({error.__class__.__name__})")
        return Accepted(str(letter.id))

    async def look_up(self, letter: Letter) -> Lookup:
        exists = await self._db.fetchval("select 1 from onceward.dashboard_messages where id = $1", letter.id)
        return Accepted(str(letter.id)) if exists else Absent()

    async def aclose(self) -> None: ...
