"""Texts of people in Twilio's webhooks. Twilio answers some words itself, and says so or not.

Source: https://www.twilio.com/docs/messaging/tutorials/advanced-opt-out (the parameter OptOutType) and "Twilio support
for opt-out keywords (SMS STOP filtering)" of Twilio's help center: on long codes and toll-free numbers Twilio answers
these English words without being asked.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Any

from onceward.messages.inbound import InboundText, InboundTexts
from onceward.messages.phones import BadNumber, read_number
from onceward.webhooks.payload import as_object, as_text

ANSWERED = frozenset(
    "stop stopall unsubscribe cancel end quit revoke optout start yes unstop help info".split()  # noqa: SIM905
)


def read(payload: Any, received_at: datetime) -> InboundText | None:
    fields = as_object(payload)
    sender, body, ours = as_text(fields.get("From")), as_text(fields.get("Body")), as_text(fields.get("To"))
    if not sender:
        return None
    with suppress(BadNumber):
        ours = read_number(ours, international=True)
    # A person who writes to a WhatsApp number at Twilio gets no answer: our messages go by SMS.
    is_answered = bool(fields.get("OptOutType")) or body.strip().lower() in ANSWERED or sender.startswith("whatsapp:")
    return InboundText(
        channel="sms",
        kind="twilio",
        ours=ours,
        sender=sender,
        answers=(body,),
        written=body,
        sent_at=received_at,
        is_answered=is_answered,
    )


TEXTS = InboundTexts(types=("message.received",), ordering="From", read=read)
