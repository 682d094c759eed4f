"""Recipients' addresses, quiet hours and opt-outs. The sender reads them when it sends a message."""

from __future__ import annotations

from datetime import datetime, time
from typing import Any
from uuid import UUID

from onceward.db import Database, Transaction, clean_text
from onceward.messages.recipient import CHANNELS, Recipient
from onceward.statements import NamedStatement, named, read_statement

SAVE = named(read_statement("messages", "save_recipient"))
OPT_OUT = named(read_statement("messages", "opt_out"))
OPT_IN = named(read_statement("messages", "opt_in"))
CONSENTS = """
select id, channel, category, decision, source, wording, actor, message, decided_at from onceward.consents
 where recipient = $2 and organization_id is not distinct from $1 order by id limit 1000
"""
LIST_CONSENTS = read_statement("messages", "list_consents")
MOST_WORDING = 2000
HEARD_FROM = read_statement("messages", "heard_from")

BY_TOKEN = "select id, organization_id, recipient, category, template, version from onceward.messages where token = $1"


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
    tx: Transaction,
    recipient: str,
    *,
    channel: str = "*",
    category: str = "*",
    source: str = "api",
    wording: str | None = None,
    actor: str | None = None,
) -> None:
    """Stop all messages of this category to this ref or address, including those already queued.

    The decision is recorded for good (`onceward.consents`): `source` says how it was made, `wording` what the person
    wrote, `actor` who recorded it if it was not the person.
    """
    await _decide(tx, OPT_OUT, recipient, channel, category, source, wording, actor)


async def opt_in(
    tx: Transaction,
    recipient: str,
    *,
    channel: str = "*",
    category: str = "*",
    source: str = "api",
    wording: str | None = None,
    actor: str | None = None,
) -> None:
    """Record that the person wants messages of this category on this channel, and remove the opt-out of exactly these.

    An opt-out whose name an erasure has replaced by a hash is removed too. `wording` is the text that the person agreed
    to.
    """
    await _decide(tx, OPT_IN, recipient, channel, category, source, wording, actor)


async def _decide(
    tx: Transaction,
    statement: NamedStatement,
    recipient: str,
    channel: str,
    category: str,
    source: str,
    wording: str | None,
    actor: str | None,
    message: int | None = None,
) -> None:
    values = statement.values(
        organization=tx.organization,
        recipient=_normalized(recipient),
        channel=channel,
        category=category,
        source=source,
        wording=None if wording is None else clean_text(wording[:MOST_WORDING]),
        actor=actor,
        message=message,
    )
    await tx.execute(statement.text, *values)


async def consents(tx: Transaction, recipient: str) -> list[dict[str, Any]]:
    """Return every opt-in and opt-out of a ref or address, oldest first."""
    return [dict(row) for row in await tx.fetch(CONSENTS, tx.organization, _normalized(recipient))]


async def list_consents(
    db: Database,
    *,
    organization: UUID | None = None,
    everywhere: bool = False,
    decision: str | None = None,
    before: int | None = None,
    limit: int = 100,
) -> list[dict[str, Any]]:
    """Return opt-ins and opt-outs, newest first: of one organization, of the installation itself, or `everywhere`."""
    return [dict(row) for row in await db.fetch(LIST_CONSENTS, organization, everywhere, decision, before, limit)]


async def heard_from(tx: Transaction, ref: str, *, at: datetime | None = None) -> None:
    """Record that the person wrote to us, which opens the 24-hour window of WhatsApp.

    The window counts from `at`, the time of the message itself: its webhook may come hours later. The default is now.
    """
    await tx.execute(HEARD_FROM, tx.organization, ref, at or await tx.fetchval("select onceward.now()"))


async def record_service_opt_out(db: Database, organization: UUID | None, recipient: str, channel: str) -> None:
    """Record that a person has opted out at the service itself: it refuses every later message."""
    async with db.transaction(role="engine", organization=organization) as tx:
        await opt_out_at_service(tx, recipient, channel)


async def opt_out_at_service(tx: Transaction, recipient: str, channel: str, *, message: int | None = None) -> None:
    """Record in this transaction that a person has opted out at the service itself, by a link in `message` if it is
    known."""
    await _decide(tx, OPT_OUT, recipient, channel, "*", "service", None, None, message)


async def unsubscribe_by_token(db: Database, token: UUID, *, source: str) -> dict[str, Any] | None:
    """Opt the recipient of a message out of its category. Return None if no message has this token."""
    async with db.transaction(role="engine") as tx:
        row = await tx.fetchrow(BY_TOKEN, token)
        if row is None:
            return None
        tx.organization = row["organization_id"]
        wording = f"the unsubscribe link of {row['template']} ({row['version']})"
        await _decide(tx, OPT_OUT, row["recipient"], "*", row["category"], source, wording, None, row["id"])
        return {name: row[name] for name in ("organization_id", "recipient", "category")}


def _normalized(recipient: str) -> str:
    return recipient.lower() if "@" in recipient else recipient
