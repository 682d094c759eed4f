"""Remove content and address from old messages. The key stays for ever, so that no message is sent twice."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from onceward.db import Database
from onceward.statements import read_statement
from onceward.work import Stripping, in_batches

STRIP = read_statement("messages", "strip_messages")
STRIP_LATER = read_statement("messages", "strip_messages_later")


async def strip_old(db: Database, *, keep: timedelta, pause_s: float = 1.0) -> int:
    """Strip finished messages in turns, `pause_s` apart; return how many old rows were examined.

    Dead letters and unknown messages keep their content, because an operator still needs it.
    """
    looked = await Stripping(db=db, statement=STRIP, arguments=(keep,), pause_s=pause_s).all()
    await in_batches(partial(db.fetchval, STRIP_LATER))
    return looked
