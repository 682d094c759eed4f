"""Remove content and address from old messages. The key stays for ever, so that no message is sent twice."""

from __future__ import annotations

from datetime import timedelta

from onceward.db import Database
from onceward.statements import read_statement
from onceward.work import TURNS, Retention

STRIP = read_statement("messages", "strip_messages")


def old_messages(db: Database, *, keep: timedelta, pause_s: float = 1.0) -> Retention:
    """Return the retention of messages: finished ones are stripped in turns, `pause_s` apart.

    Dead letters and unknown messages keep their content, because an operator still needs it.
    """
    return Retention(
        db=db,
        name="messages",
        table="onceward.messages",
        prune=STRIP,
        keep=keep,
        turns=TURNS,
        pause_s=pause_s,
    )
