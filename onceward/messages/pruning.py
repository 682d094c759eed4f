"""Remove content and address from old messages. The key stays for ever, so that no message is sent twice."""

from __future__ import annotations

from datetime import timedelta

from onceward.db import Database
from onceward.statements import read_statement

STRIP = read_statement("messages", "strip_messages")


async def strip_old(db: Database, *, keep: timedelta, at_once: int = 1000) -> int:
    """Strip finished messages and return how many old rows were examined.

    Dead letters and unknown messages keep their content, because an operator still needs it.
    """
    return await db.fetchval(STRIP, keep, at_once)
