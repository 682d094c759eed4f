"""Handlers of WhatsApp webhooks: what a person writes moves the state of the user.

The source is `engagement-whatsapp`. Messages of one person are handled one after the other. If the source belongs to no
organization, the number that received the message decides, which belongs to the organization that has proven it
(`/api/v1/senders`). At a number of the whole installation, the person must be known to exactly one organization, except
for STOP, which every organization obeys.
"""

from __future__ import annotations

from typing import Any

import structlog

from onceward import Event, Tx
from onceward.integrations.whatsapp import WhatsAppReceived
from onceward.messages import BadNumber, organization_of_sender, read_number, read_reply, variants
from onceward_apps.engagement import activity, jobs, metrics
from onceward_apps.engagement.app import app, settings
from onceward_apps.engagement.model import ANSWERS
from onceward_apps.engagement.store import views

log = structlog.get_logger(__name__)

SOURCE = "engagement-whatsapp"


KINDS = (
    "text",
    "button",
    "interactive",
    "image",
    "audio",
    "video",
    "sticker",
    "document",
    "location",
    "contacts",
    "reaction",
    "order",
    "unsupported",
)
"""What a person can send. Whatever it is, it is an answer: what is not one of the known words is activity."""


async def received(event: Event[WhatsAppReceived], tx: Tx) -> dict[str, Any]:
    return await _received(event, tx)


for kind in KINDS:
    app.on(SOURCE, f"message.{kind}", ordering=True, handles_replies=True)(received)


async def _received(event: Event[WhatsAppReceived], tx: Tx) -> dict[str, Any]:
    ours = settings().our_numbers
    number_id = event.data.metadata.phone_number_id
    message = event.data.message
    reply = read_reply(*message.answers, allowed=ANSWERS)
    owner = None if tx.organization is not None else await organization_of_sender(tx, "whatsapp", number_id)
    if ours and number_id not in ours and owner is None and reply != "stop":
        return _answer(tx, "not_ours")
    try:
        numbers = variants(read_number(message.sender, international=True))
    except BadNumber:
        return _answer(tx, "unknown_number")
    sent_at = message.sent_at(event.received_at)
    if tx.organization is None:
        owners = await views.organizations_of(tx, numbers) if owner is None else [owner]
        if len(owners) > 1 and reply == "stop":
            # All of them may write from this number, and a STOP that is ignored cannot be repaired.
            await tx.enqueue_many(
                [jobs.stop.call(organization=each, numbers=list(numbers), at=sent_at) for each in owners]
            )
            return _answer(tx, "stop")
        if len(owners) != 1:
            return _answer(tx, "unknown_number" if not owners else "ambiguous_number")
        await tx.act_for(owners[0])
    return _answer(tx, await activity.record_reply(tx, numbers, reply, at=sent_at))


def _answer(tx: Tx, effect: str) -> dict[str, Any]:
    tx.after_commit(lambda: metrics.REPLIES.labels(effect).inc())
    return {"effect": effect}
