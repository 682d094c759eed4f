"""Recipients' addresses, quiet hours and opt-outs. The sender reads them when it sends a message."""

from __future__ import annotations

from datetime import datetime, time
from typing import Any
from uuid import UUID

from onceward.db import Database, Transaction
from onceward.messages.recipient import CHANNELS, Recipient
from onceward.statements import named, read_statement

SAVE = named(read_statement("messages", "save_recipient"))
OPT_OUT = read_statement("messages", "opt_out")
OPT_IN = read_statement("messages", "opt_in")
HEARD_FROM = read_statement("messages", "heard_from")

BY_TOKEN = "select organization_id, recipient, category from onceward.messages where token = $1"


async def save_recipient(
    tx: Transaction,
    recipient: Recipient,
    *,
    preferred_channel: str | None = None,
    destination: str | None = None,
    quiet: tuple[time, time] | None = None,
) -> None:
    """Save a recipient under its `ref`. Fields that are not given keep their saved value."""
    if recipient.ref is None:
        raise ValueError("recipient.ref is missing: a recipient is saved under its ref")
    if preferred_channel is not None and preferred_channel not in CHANNELS:
        raise ValueError(f"preferred_channel must be one of {', '.join(CHANNELS)}, not {preferred_channel!r}")
    quiet_from, quiet_to = quiet or (None, None)
    values = SAVE.values(
        organization=tx.organization,
        ref=recipient.ref,
        email=recipient.email,
        phone=recipient.phone,
        whatsapp=recipient.whatsapp,
        slack=recipient.slack,
        push=None if recipient.push is None else dict(recipient.push),
        locale=recipient.locale,
        timezone=recipient.timezone,
        preferred_channel=preferred_channel,
        destination=destination,
        quiet_from=quiet_from,
        quiet_to=quiet_to,
    )
    await tx.execute(SAVE.text, *values)


async def forget_push(tx: Transaction, ref: str) -> None:
    """Remove the recipient's browser subscription."""
    await tx.execute(
        "update onceward.recipients set push = null, updated_at = onceward.now()"
        " where organization_id is not distinct from $1 and ref = $2",
        tx.organization,
        ref,
    )


async def preferred_channel(tx: Transaction, ref: str) -> str | None:
    """Return the channel that the recipient has chosen, or None."""
    return await tx.fetchval(
        "select preferred_channel from onceward.recipients where organization_id is not distinct from $1 and ref = $2",
        tx.organization,
        ref,
    )


async def opt_out(
    tx: Transaction, recipient: str, *, channel: str = "*", category: str = "*", source: str = "api"
) -> None:
    """Stop all messages of this category to this ref or address, including those already queued."""
    await tx.execute(OPT_OUT, tx.organization, _normalized(recipient), channel, category, source)


async def opt_in(tx: Transaction, recipient: str, *, channel: str = "*", category: str = "*") -> None:
    """Remove the opt-out of exactly this channel and category, even if an erasure has replaced its name by a hash."""
    await tx.execute(OPT_IN, tx.organization, _normalized(recipient), channel, category)


async def heard_from(tx: Transaction, ref: str, *, at: datetime | None = None) -> None:
    """Record that the person wrote to us, which opens the 24-hour window of WhatsApp.

    The window counts from `at`, the time of the message itself: its webhook may come hours later. The default is now.
    """
    await tx.execute(HEARD_FROM, tx.organization, ref, at or await tx.fetchval("select onceward.now()"))


async def unsubscribe_by_token(db: Database, token: UUID, *, source: str) -> dict[str, Any] | None:
    """Opt the recipient of a message out of its category. Return None if no message has this token."""
    async with db.transaction(role="engine") as tx:
        row = await tx.fetchrow(BY_TOKEN, token)
        if row is None:
            return None
        await tx.execute(OPT_OUT, row["organization_id"], _normalized(row["recipient"]), "*", row["category"], source)
        return dict(row)


def _normalized(recipient: str) -> str:
    return recipient.lower() if "@" in recipient else recipient
