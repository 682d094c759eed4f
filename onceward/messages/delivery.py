"""What services tell afterwards: delivered, read, bounced. A report also settles a message whose outcome was unknown."""

from __future__ import annotations

import re

from onceward.db import Transaction

REPORT = """
update onceward.messages
   set delivery = $3,
       status = case when status = 'unknown' and $4 then 'success' else status end,
       reason = case when status = 'unknown' and $4 then null else reason end,
       sent_at = case when status = 'unknown' and $4 then coalesce(sending_since, onceward.now()) else sent_at end
 where (reference = $1 or id = $2) and delivery is distinct from 'read'
returning id
"""

ARRIVED = frozenset({"accepted", "queued", "sent", "delivered", "read", "opened"})
"""The service has had it: then it was sent, whatever we knew."""
KEY = re.compile(r"^message:(\d+):send$")


async def report_delivery(
    tx: Transaction, *, status: str, reference: str | None = None, key: str | None = None
) -> int | None:
    """Note a report, found by the service's own reference or by our key that came back. Returns the message's id."""
    found = KEY.match(key or "")
    id = int(found[1]) if found else None
    if reference is None and id is None:
        raise ValueError("a report names the message by reference or by key")
    return await tx.fetchval(REPORT, reference, id, status, status in ARRIVED)
