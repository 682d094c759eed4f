"""Remove content and address from old messages. The key stays for ever, so that no message is sent twice."""

from __future__ import annotations

from datetime import timedelta

from onceward.db import Database
from onceward.messages.preference_page import prune_links
from onceward.statements import read_statement
from onceward.work import TURNS, Retention, retentions

PRUNE_DIGESTS = read_statement("messages", "prune_digest_entries")
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


def old_records(db: Database, *, keep: timedelta) -> list[Retention]:
    """Return the retentions of what is written about messages: notices, notifications, and messages of the dashboard.

    A notification with a key stays, so that it is not sent twice.
    """
    finished = {
        "notices": "r.told_at is not null",
        "notifications": "r.finished_at is not null and r.key is null",
        "dashboard_messages": "true",
    }
    return retentions(db, finished, keep=keep)


async def prune_records(db: Database, keep: timedelta) -> None:
    """Delete old notices, notifications, messages of the dashboard, expired links, and entries of digests."""
    for each in old_records(db, keep=keep):
        await each.all()
    await prune_links(db, keep)
    await db.execute(PRUNE_DIGESTS, keep)
