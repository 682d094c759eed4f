"""Recipients' addresses, quiet hours and opt-outs. The sender reads them when it sends a message."""

from __future__ import annotations

from datetime import time
from typing import Any
from uuid import UUID

from onceward.db import Database, Transaction
from onceward.messages.recipient import CHANNELS, Recipient

SAVE = """
insert into onceward.recipients as r
    (organization_id, ref, email, phone, whatsapp, slack, push, locale, timezone, preferred_channel, destination,
     quiet_from, quiet_to)
values ($1, $2, lower($3), $4, $5, $6, $7, $8, $9, $10, coalesce($11, 'individual'), $12, $13)
on conflict (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), ref) do update
    set email = coalesce(excluded.email, r.email), phone = coalesce(excluded.phone, r.phone),
        whatsapp = coalesce(excluded.whatsapp, r.whatsapp), slack = coalesce(excluded.slack, r.slack),
        push = coalesce(excluded.push, r.push), locale = coalesce(excluded.locale, r.locale),
        timezone = coalesce(excluded.timezone, r.timezone),
        preferred_channel = coalesce(excluded.preferred_channel, r.preferred_channel),
        destination = coalesce($11, r.destination), quiet_from = coalesce(excluded.quiet_from, r.quiet_from),
        quiet_to = coalesce(excluded.quiet_to, r.quiet_to), updated_at = onceward.now()
"""

OPT_OUT = """
insert into onceward.opt_outs (organization_id, recipient, channel, category, source) values ($1, $2, $3, $4, $5)
on conflict do nothing
"""

OPT_IN = """
delete from onceward.opt_outs
 where organization_id is not distinct from $1 and channel = $3 and category = $4
   and recipient in ($2, 'erased:' || onceward.person_hash($2))
"""

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
    await tx.execute(
        SAVE,
        tx.organization,
        recipient.ref,
        recipient.email,
        recipient.phone,
        recipient.whatsapp,
        recipient.slack,
        None if recipient.push is None else dict(recipient.push),
        recipient.locale,
        recipient.timezone,
        preferred_channel,
        destination,
        *(quiet or (None, None)),
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


async def heard_from(tx: Transaction, ref: str) -> None:
    """Record that the person wrote to us, which opens the 24-hour window of WhatsApp."""
    await tx.execute(
        "insert into onceward.recipients as r (organization_id, ref, heard_at) values ($1, $2, onceward.now())"
        " on conflict (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), ref)"
        " do update set heard_at = onceward.now()",
        tx.organization,
        ref,
    )


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
