"""Texts and pressed buttons of people in WhatsApp's webhooks."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import ValidationError

from onceward.integrations.whatsapp.received import WhatsAppReceived
from onceward.messages.inbound import InboundText, InboundTexts


def read(payload: Any, received_at: datetime) -> InboundText | None:
    try:
        received = WhatsAppReceived.model_validate(payload)
    except ValidationError:
        return None
    message = received.message
    return InboundText(
        channel="whatsapp",
        kind="whatsapp",
        ours=received.metadata.phone_number_id,
        sender=message.sender,
        answers=message.answers,
        written=message.written,
        sent_at=message.sent_at(received_at),
    )


TEXTS = InboundTexts(types=("message.text", "message.button", "message.interactive"), ordering=True, read=read)
