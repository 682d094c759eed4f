"""Remove content and address from old messages. The key stays for ever, so that no message is sent twice."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from onceward.db import Database
from onceward.statements import read_statement
from onceward.work import in_batches

STRIP = read_statement("messages", "strip_messages")
STRIP_LATER = read_statement("messages", "strip_messages_later")


async def strip_old(db: Database, *, keep: timedelta) -> int:
    """Strip finished messages and return how many old rows were examined.

    Dead letters and unknown messages keep their content, because an operator still needs it.
    """
    looked = await in_batches(partial(db.fetchval, STRIP, keep))
    await in_batches(partial(db.fetchval, STRIP_LATER))
    return looked
