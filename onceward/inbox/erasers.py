"""What the inbox holds about a person: bodies of events that mention them. A hash stays, so that the rest can be proven."""

from __future__ import annotations

from onceward.db import Transaction
from onceward.trust.erase import Eraser, Person, contains

MENTIONED = f"""
select seq from onceward.webhook_events e
 where not exists (select from onceward.work w where w.id = e.seq and w.dead_reason is null)
   and ({contains("coalesce(payload::text, '')", "$2")} or {contains("coalesce(result::text, '')", "$2")}
    or {contains("coalesce(error, '')", "$1")} or {contains("coalesce(event_id, '')", "$1")}
    or position(convert_to(lower($1), 'UTF8') in coalesce(raw, '')) > 0
    or position(convert_to($1, 'UTF8') in coalesce(raw, '')) > 0)
"""

BLANK = """
update onceward.webhook_events
   set payload = null, raw = null, signature = null, result = null, error = case when error is not null then 'erased' end,
       headers = jsonb_build_object('erased_sha256', encode(sha256(coalesce(raw, '')), 'hex')),
       event_id = case when position(lower($2) in lower(event_id)) > 0
                       then 'erased:' || encode(sha256(convert_to(event_id, 'UTF8')), 'hex') else event_id end,
       settles = settles + 1
 where seq = any($1)
"""


async def erase_events(tx: Transaction, person: Person) -> int:
    """Blank what was received about the person. What is still to be handled needs it: it is erased when asked for again."""
    rows = await tx.fetch(MENTIONED, person.ref, person.json)
    ids = [row["seq"] for row in rows]
    await tx.execute(BLANK, ids, person.ref)
    await tx.execute("update onceward.attempts set result = null, error = null where work_id = any($1)", ids)
    return len(ids)


ERASERS: tuple[Eraser, ...] = (Eraser("received webhooks", erase_events),)
