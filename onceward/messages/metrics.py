"""Metrics of messages."""

from __future__ import annotations

from onceward.telemetry.metrics import counter

SENT = counter(
    "message_sends_total",
    "Calls to a channel's service, by outcome: accepted, refused, throttled, unreachable, unknown.",
    ("channel", "outcome"),
)
PARKED = counter(
    "message_channel_parked_total",
    "Times a channel was paused because its service was unreachable or asked for a pause.",
    ("channel",),
)
