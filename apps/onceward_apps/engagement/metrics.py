"""Metrics of engagement."""

from __future__ import annotations

from onceward.telemetry.metrics import counter

TRANSITIONS = counter(
    "engagement_transitions_total", "Changes of a user's state.", ("from_state", "to_state", "trigger")
)
QUEUED = counter("engagement_messages_queued_total", "Messages queued by the runs, by type.", ("message_type",))
SENT = counter(
    "engagement_messages_total",
    "Messages that were sent or failed, as WhatsApp reports it.",
    ("message_type", "status"),
)
GIVEN_UP = counter("engagement_goodbyes_given_up_total", "Goodbyes that could not be sent, by reason.", ("reason",))
REPLIES = counter("engagement_replies_total", "Messages from users, by what they caused.", ("effect",))
