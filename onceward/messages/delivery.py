"""Delivery reports of services: delivered, read, bounced. A report also settles a message whose outcome was unknown."""

from __future__ import annotations

import re

from onceward.db import Transaction
from onceward.statements import read_statement

REPORT = read_statement("messages", "report_delivery")

ARRIVED = frozenset({"accepted", "queued", "sent", "delivered", "read", "opened"})
"""Reports which prove that the service received the message, so that an unknown message becomes a sent one."""
KEY = re.compile(r"^message:(\d+):send$")


async def report_delivery(
    tx: Transaction, *, status: str, reference: str | None = None, key: str | None = None
) -> int | None:
    """Record a report on the message with this reference of the service or this key of ours; return the message's id."""
    match = KEY.match(key or "")
    id = int(match[1]) if match else None
    if reference is None and id is None:
        raise ValueError("the report names no message: give reference, or a key of the form message:ID:send")
    return await tx.fetchval(REPORT, reference, id, status, status in ARRIVED)
