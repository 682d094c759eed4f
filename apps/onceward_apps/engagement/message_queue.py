"""Queue messages of engagement. The idempotency key decides: the same key twice is one message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from onceward import Tx
from onceward.messages import BadNumber, Queued, Recipient, Sending, read_number
from onceward_apps.engagement.errors import InvalidProfile
from onceward_apps.engagement.model import LIFETIME, TEMPLATES, WEEKLY_VISIT, Destination, MessageType, route


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedMessage:
    """A message to one user. `destination_jid` None means the number of the profile when the message is sent."""

    user_id: UUID
    message_type: MessageType
    idempotency_key: str
    message_params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    destination: Destination = "individual"
    destination_jid: str | None = field(default=None, repr=False)
    locale: str | None = None
    scheduled_for: datetime | None = None


async def queue_message(tx: Tx, message: QueuedMessage) -> Queued:
    """Queue one message. `duplicate` is true if the key was used before; then nothing is queued."""
    [done] = await queue_messages(tx, message.message_type, [message])
    return done


async def queue_messages(tx: Tx, message_type: MessageType, batch: Sequence[QueuedMessage]) -> list[Queued]:
    """Queue messages of one type in a few statements."""
    template = TEMPLATES.get(message_type)
    if template is None:
        raise ValueError(f"message_type {message_type!r} is reserved: there is no such message")
    now: datetime = await tx.fetchval("select onceward.now()")
    without = [each for each in batch if _template(each) == WEEKLY_VISIT]
    counted = [each for each in batch if _template(each) != WEEKLY_VISIT]
    queued: dict[str, Queued] = {}
    for name, messages in ((template, counted), (WEEKLY_VISIT, without)):
        if messages:
            done = await tx.send_many(name, [_sending(each, now) for each in messages], channel="whatsapp")
            queued |= {each.idempotency_key: result for each, result in zip(messages, done, strict=True)}
    return [queued[each.idempotency_key] for each in batch]


def _template(message: QueuedMessage) -> str | None:
    """Return the template of a message. A review does not praise anybody for no transactions."""
    if message.message_type == "weekly_review" and message.message_params.get("transaction_count") == 0:
        return WEEKLY_VISIT
    return TEMPLATES.get(message.message_type)


def _sending(message: QueuedMessage, now: datetime) -> Sending:
    routed = route(message.destination)
    recorded = {"destination": routed.destination}
    if routed.instead_of is not None:
        recorded["instead_of"] = routed.instead_of
    return Sending(
        to=Recipient(ref=str(message.user_id), whatsapp=message.destination_jid, locale=message.locale),
        key=message.idempotency_key,
        data={**message.message_params, **recorded},
        not_before=message.scheduled_for,
        expires_at=(message.scheduled_for or now) + LIFETIME[message.message_type],
    )


async def send_test(tx: Tx, message_type: MessageType, number: str, *, locale: str, actor: str | None) -> Queued:
    """Send a message with sample data to a number, for somebody who wants to see it. It changes no user."""
    try:
        address = read_number(number, international=True)
    except BadNumber as error:
        raise InvalidProfile(f"number: {error}") from error
    template = tx.engine.templates.get(TEMPLATES[message_type])
    key = f"engagement:test:{uuid4()}"
    queued = await tx.send(
        template.name,
        to=Recipient(whatsapp=address, locale=locale),
        key=key,
        data=template.sample,
        channel="whatsapp",
    )
    await tx.audit(
        "engagement_test_sent",
        entity_type="Message",
        entity_id=queued.id,
        metadata={"message_type": message_type, "locale": locale},
        actor=actor,
    )
    return queued
