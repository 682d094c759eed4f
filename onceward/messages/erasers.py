"""What messages hold about a person: addresses, texts, wishes. Keys and outcomes stay, so nothing is sent again."""

from __future__ import annotations

from onceward.db import Transaction
from onceward.trust.erase import Eraser, Person, contains


async def erase_messages(tx: Transaction, person: Person) -> int:
    """Blank address and data; a message that waits for the person is cancelled."""
    rows = await tx.fetch(
        "update onceward.messages set address = null, data = null, recipient = 'erased:' || $3,"
        " status = case when status in ('pending', 'processing') then 'cancelled' else status end,"
        " reason = case when status in ('pending', 'processing') then 'erased' else null end"
        " where lower(recipient) = lower($1) or lower(address) = lower($1)"
        f" or {contains('data', '$2')} returning id",
        person.ref,
        person.json,
        person.hash,
    )
    await tx.execute("delete from onceward.work where id = any($1)", [row["id"] for row in rows])
    return len(rows)


async def erase_recipient(tx: Transaction, person: Person) -> int:
    """Forget where to reach them. That they wanted nothing any more is kept, under the hash."""
    count = await tx.fetchval(
        "with gone as (delete from onceward.recipients where lower($1) in"
        " (lower(ref), lower(email), lower(phone), lower(whatsapp)) returning 1) select count(*) from gone",
        person.ref,
    )
    await tx.execute(
        "update onceward.opt_outs set recipient = $2 where lower(recipient) = lower($1)", person.ref, person.hash
    )
    await tx.execute(
        "delete from onceward.dashboard_messages where lower(recipient) = lower($1)"
        f" or {contains('body', '$1')} or {contains('title', '$1')}",
        person.ref,
    )
    return count


ERASERS: tuple[Eraser, ...] = (Eraser("messages", erase_messages), Eraser("recipients", erase_recipient))
