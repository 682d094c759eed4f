"""Metrics of engagement."""

from __future__ import annotations

from onceward.telemetry.metrics import counter

TRANSITIONS = counter(
    "engagement_transitions_total", "Changes of a user's state.", ("from_state", "to_state", "trigger")
)
QUEUED = counter("engagement_messages_queued_total", "Messages queued by the runs, by type.", ("message_type",))
GIVEN_UP = counter("engagement_goodbyes_given_up_total", "Goodbyes that could not be sent, by reason.", ("reason",))
REPLIES = counter("engagement_replies_total", "Messages from users, by what they caused.", ("effect",))
