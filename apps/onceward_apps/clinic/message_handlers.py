"""Handlers of messages from people: WhatsApp (source `clinic-whatsapp`) and Twilio (source `clinic-twilio`).

A source of one clinic serves that clinic. A source of the platform serves several: the number that was written to
decides, which belongs to the clinic that has proven it (`/api/v1/senders`). STOP is never dropped. Delivery reports
need no handler here: the engine applies them to the messages.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from onceward import Event, Tx
from onceward.integrations.whatsapp import WhatsAppReceived
from onceward.messages import (
    BadNumber,
    SenderKind,
    list_senders,
    organization_of_sender,
    read_number,
    read_reply,
    variants,
)
from onceward_apps.clinic import correspondence, jobs
from onceward_apps.clinic.app import app
from onceward_apps.clinic.correspondence import Inbound
from onceward_apps.clinic.store import people

WHATSAPP = "clinic-whatsapp"
TWILIO = "clinic-twilio"
KINDS = (
    "text",
    "button",
    "interactive",
    "image",
    "audio",
    "video",
    "document",
    "sticker",
    "location",
    "contacts",
    "reaction",
    "order",
    "unsupported",
    "unknown",
)


class TwilioReceived(BaseModel):
    sid: str = Field(alias="MessageSid", min_length=1, max_length=64)
    sender: str = Field(alias="From")
    recipient: str = Field(alias="To", default="")
    body: str = Field(alias="Body", default="")
    media: int = Field(alias="NumMedia", default=0)


async def whatsapp_received(event: Event[WhatsAppReceived], tx: Tx) -> dict[str, Any]:
    """Store a message and do what it asks for."""
    message = event.data.message
    if not await _is_ours(tx, "whatsapp", event.data.metadata.phone_number_id):
        return {"effect": await _stop_anyway(tx, message.sender, message.answers)}
    inbound = Inbound(
        channel="whatsapp",
        provider_id=message.id,
        sender=message.sender,
        kind=message.type,
        written=message.written,
        answers=message.answers,
        sent_at=message.sent_at(event.received_at),
        quoted=message.quoted,
    )
    return {"effect": await correspondence.receive(tx, event, inbound)}


for kind in KINDS:
    app.on(WHATSAPP, f"message.{kind}", ordering=True, handles_replies=True)(whatsapp_received)


@app.on(TWILIO, "message.received", ordering="From", handles_replies=True)
async def twilio_received(event: Event[TwilioReceived], tx: Tx) -> dict[str, Any]:
    """Store a text message and do what it asks for. A message over Twilio's WhatsApp is answered by SMS."""
    data = event.data
    try:
        recipient = read_number(data.recipient, international=True)
    except BadNumber:
        recipient = data.recipient
    if not await _is_ours(tx, "twilio", recipient):
        return {"effect": await _stop_anyway(tx, data.sender, (data.body,))}
    inbound = Inbound(
        channel="sms",
        provider_id=data.sid,
        sender=data.sender,
        kind="media" if data.media else "text",
        written=data.body,
        answers=(data.body,),
        sent_at=event.received_at,
    )
    return {"effect": await correspondence.receive(tx, event, inbound)}


async def _is_ours(tx: Tx, kind: SenderKind, identifier: str) -> bool:
    """Act for the clinic that was written to. A clinic that has proven numbers gets messages to these only.

    What another clinic claims never decides about a clinic's own source.
    """
    if tx.organization is not None:
        proven = await list_senders(tx, tx.organization, kind)
        return not proven or identifier in {each.identifier for each in proven}
    owner = await organization_of_sender(tx, kind, identifier)
    if owner is None:
        return False
    await tx.act_for(owner)
    return True


async def _stop_anyway(tx: Tx, sender: str, texts: tuple[str, ...]) -> str:
    """Obey STOP even if the number that received it does not belong to a clinic: every clinic that knows the person
    stops.

    They may all have written from this number, and a STOP that is ignored cannot be repaired.
    """
    if read_reply(*texts) != "stop":
        return "not_ours"
    try:
        number = read_number(sender, international=True)
    except BadNumber:
        return "not_ours"
    if tx.organization is not None:
        await correspondence.stop(tx, number)
        return "opted_out"
    clinics = {each for form in variants(number) for each in await people.organizations_of_contact(tx, form)}
    await tx.enqueue_many([jobs.stop.call(clinic=clinic, number=number) for clinic in sorted(clinics)])
    return "opted_out" if clinics else "not_ours"
